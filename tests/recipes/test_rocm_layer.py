"""The layer rocm: what it takes from AMD, and what it shows of GPUs while an image is built."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.plan.plan import make_plan
from lumicontainer.core.plan.seal import mount_points
from lumicontainer.core.resolve.resolve import resolve
from lumicontainer.errors import DOWNLOAD_FAILED
from lumicontainer.host.site import read_site, stage_site

from ..stand_in_archive import StandInArchive, stand_in_archive
from ..stand_in_rocm import TRUE_TOOL, stand_in_rocm
from .sandbox import LAYERS, Sandbox, passed

URL = "https://repo.radeon.com/"
DEVICE_LIBRARIES = "/usr/lib/llvm-21/lib/clang/21/amdgcn"


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    sandbox = Sandbox(tmp_path)
    # Nothing but the test's own repository, and no package that this machine has.
    for path in Path("/etc/apt").glob("sources.list*/*"):
        sandbox.before(str(path))
    sandbox.before("/etc/apt/sources.list")
    sandbox.before("/var/lib/dpkg/status")
    # The machine's own belong to a user whom the sandbox does not know.
    folders = 'Dir::State::Lists "/opt/apt-lists";\nDir::Cache "/opt/apt-cache";\n'
    sandbox.before("/etc/apt/apt.conf.d/folders", folders)
    for folder in ("apt-lists", "apt-cache/archives"):
        sandbox.before(f"/opt/{folder}/partial/.keep")
    sandbox.before("/etc/os-release", "ID=ubuntu\nVERSION_CODENAME=noble\n")
    return sandbox


@dataclass
class Amd:
    """Hold the sandbox, repositories in AMD's place, and the fingerprint that is asked for."""

    sandbox: Sandbox
    archive: StandInArchive
    fingerprint: str

    def publish(self, *keys: str, signer: str = "own", version: str = "6.4.4") -> None:
        """Publish these keys, and packages of a ROCm that are signed by one."""
        for folder, packages in stand_in_rocm(version).items():
            suite = {"suite": "noble", "origin": "repo.radeon.com"}
            self.archive.publish(folder, packages, **suite, signer=signer)
        path = self.archive.root / "rocm/rocm.gpg.key"
        path.write_text("".join(map(self.archive.key, keys)))

    def install(self) -> subprocess.CompletedProcess[str]:
        """Run the whole step of the layer, with a mirror in AMD's place."""
        materials = open_catalog().materials("rocm", "lumi-g")
        resolved = resolve(materials, [f"rocm.key_fingerprint={self.fingerprint}"])
        (step,) = [each for each in make_plan(resolved, ()).steps if each.name == "rocm"]
        staged = self.sandbox.work / "staged"
        staged.mkdir()
        # The last lines remove what is the machine's here, of users whom the sandbox does not know.
        program, removal, _ = step.program.rpartition("rm -rf /var/lib/apt/lists/*")
        assert removal
        (staged / "step.sh").write_text(f"{program})\n")
        mirrors = {URL: f"{self.archive.root.as_uri()}/"}
        stage_site(read_site("", mirrors), staged, str(staged))
        words = f". {staged}/site.sh && exec bash {staged}/step.sh"
        return self.sandbox.enter(["bash", "-c", words])


@pytest.fixture
def amd(sandbox: Sandbox) -> Iterator[Amd]:
    with stand_in_archive(sandbox.work / "amd") as archive:
        archive.make_key("other")
        yield Amd(sandbox, archive, archive.make_key())


def test_rocm_comes_from_repositories_that_amd_has_signed(sandbox: Sandbox, amd: Amd) -> None:
    amd.publish("own")
    passed(amd.install())
    assert sandbox.written("/opt/rocm-6.4.4/lib/librccl.so.1").exists()
    assert sandbox.written("/opt/amdgpu/there").exists()
    assert sandbox.written("/etc/ld.so.conf.d/rocm.conf").read_text() == "/opt/rocm/lib\n"
    for name in ("rocm", "amdgpu"):
        text = sandbox.written(f"/etc/apt/sources.list.d/{name}.list").read_text()
        assert f"deb [arch=amd64 signed-by=/etc/apt/keyrings/rocm.asc] {URL}{name}/" in text
        assert text.endswith(" noble main\n")


@pytest.mark.parametrize("keys", [("other",), ("own", "other")], ids=["another", "one beside it"])
def test_another_key_than_amds_is_refused(
    sandbox: Sandbox, amd: Amd, keys: tuple[str, ...]
) -> None:
    amd.publish(*keys, signer="other")
    done = amd.install()
    assert done.returncode == DOWNLOAD_FAILED
    assert f"not '{amd.fingerprint}'" in done.stderr
    assert "set rocm.key_fingerprint" in done.stderr
    assert not sandbox.written("/etc/apt/keyrings/rocm.asc").exists()


def test_packages_that_amd_has_not_signed_are_not_installed(sandbox: Sandbox, amd: Amd) -> None:
    amd.publish("own", signer="other")
    done = amd.install()
    assert done.returncode != 0
    assert "is not signed" in done.stderr
    assert not sandbox.written("/opt/rocm-6.4.4").exists()


def test_another_release_of_rocm_than_was_asked_for_ends_the_step(amd: Amd) -> None:
    amd.publish("own", version="6.4.3")
    done = amd.install()
    assert done.returncode == 1
    assert "error: /opt/rocm holds ROCm 6.4.3-129, not 6.4.4\n" in done.stderr


@pytest.mark.parametrize(("version", "fits"), [("6.4.4", True), ("6.4", False), ("7.0.2", False)])
def test_a_base_image_must_hold_the_rocm_that_is_asked_for(
    sandbox: Sandbox, version: str, fits: bool
) -> None:
    sandbox.before("/opt/rocm/.info/version", "6.4.4-129\n")
    done = sandbox.run("rocm", "install.sh", provider="image", version=version)
    assert (done.returncode == 0) == fits, done.stderr


def test_a_base_image_without_rocm_is_refused_with_the_hint(sandbox: Sandbox) -> None:
    done = sandbox.run("rocm", "install.sh", provider="image", version="6.4.4")
    assert done.returncode == 1
    assert "error: /opt/rocm holds no ROCm, not 6.4.4\n" in done.stderr
    assert "choose rocm.version and ubuntu.version that go together" in done.stderr


def install_debians(sandbox: Sandbox, version: str) -> subprocess.CompletedProcess[str]:
    """Run the script for HIP 6.4.3 where Debian has another version, or this one."""
    query = f"#!/bin/sh\nprintf 'libamdhip64-dev:amd64\\t{version}\\n'\n"
    sandbox.before("/usr/bin/dpkg-query", query, mode=0o755)
    return sandbox.run("rocm", "install.sh", provider="debian", version="6.4.3")


@pytest.fixture
def debian(sandbox: Sandbox) -> Sandbox:
    for tool in ("bin/rocminfo", "bin/rocm_agent_enumerator", "lib/llvm-15/bin/amdgpu-arch"):
        sandbox.before(f"/usr/{tool}", TRUE_TOOL, mode=0o755)
    sandbox.before(f"{DEVICE_LIBRARIES}/bitcode/ocml.bc", "code of the device")
    passed(install_debians(sandbox, "6.4.3-5"))
    return sandbox


def test_debians_rocm_says_its_version_where_programs_read_it(debian: Sandbox) -> None:
    assert debian.written("/usr/.info/version").read_text() == "6.4.3\n"
    assert debian.written("/usr/amdgcn").readlink() == Path(DEVICE_LIBRARIES)
    assert debian.written("/usr/llvm").readlink() == Path("/usr/lib/llvm-21")
    header = debian.written("/usr/include/rocm-core/rocm_version.h").read_text()
    assert header.replace("#define ROCM_", "").splitlines() == [
        *("VERSION_MAJOR 6", "VERSION_MINOR 4", "VERSION_PATCH 3"),
        'BUILD_INFO "6.4.3"',
    ]


def test_another_hip_than_the_one_asked_for_is_refused(sandbox: Sandbox) -> None:
    done = install_debians(sandbox, "7.2.4-1")
    assert done.returncode == 1
    assert "error: Debian has HIP 7.2.4-1 now, not 6.4.3\n" in done.stderr


def printed(sandbox: Sandbox, tool: str) -> str:
    return passed(sandbox.enter([tool])).stdout


def check(sandbox: Sandbox, name: str) -> subprocess.CompletedProcess[str]:
    copy = sandbox.work / name
    shutil.copyfile(LAYERS / "rocm/checks" / name, copy)
    return sandbox.enter(["bash", str(copy)])


def test_debians_rocm_gives_pytorch_a_folder_without_headers(debian: Sandbox) -> None:
    home = debian.written("/opt/rocm-debian")
    assert not list((home / "include").iterdir())
    links = {path.name: str(path.readlink()) for path in home.iterdir() if path.is_symlink()}
    assert links == {name: f"/usr/{name}" for name in (".info", "bin", "lib", "llvm")}


def test_while_an_image_is_built_the_machine_has_one_gfx90a(debian: Sandbox) -> None:
    assert printed(debian, "/usr/lib/llvm-15/bin/amdgpu-arch") == "gfx90a\n"
    assert printed(debian, "rocm_agent_enumerator") == "gfx90a\n"
    assert "  Wavefront Size:          64(0x40)\n" in printed(debian, "rocminfo")


def test_the_last_step_puts_rocms_own_programs_back(debian: Sandbox) -> None:
    # A second time there is nothing to do.
    for _ in range(2):
        passed(debian.run("rocm", "finish.sh"))
        for path in ("/usr/bin/rocminfo", "/usr/lib/llvm-15/bin/amdgpu-arch"):
            assert debian.written(path).read_text() == TRUE_TOOL
            assert debian.written(path).stat().st_mode & 0o777 == 0o755


def test_what_a_later_layer_installs_in_its_place_stays(debian: Sandbox) -> None:
    newer = "#!/bin/sh\necho newer\n"
    debian.before("/usr/bin/rocminfo", newer, mode=0o755)
    passed(debian.run("rocm", "finish.sh"))
    assert debian.written("/usr/bin/rocminfo").read_text() == newer


def test_a_check_reports_whether_they_are_back(debian: Sandbox) -> None:
    before = check(debian, "restored.sh")
    assert (before.returncode, "are not back" in before.stderr) == (1, True)
    passed(debian.run("rocm", "finish.sh"))
    assert "3 programs" in passed(check(debian, "restored.sh")).stdout
    stand_in = (LAYERS / "rocm/one-gfx90a.sh").read_text()
    debian.before("/usr/bin/rocminfo", stand_in, mode=0o755)
    left = check(debian, "restored.sh")
    assert (left.returncode, "it is the stand-in of the build" in left.stderr) == (1, True)


def test_links_between_the_programs_hold(sandbox: Sandbox) -> None:
    links = {"lib/llvm/bin/amdgpu-arch": "offload-arch", "bin/offload-arch": "../lib/llvm/bin/llvm"}
    programs = ("lib/llvm/bin/offload-arch", "lib/llvm/bin/llvm")
    sandbox.before("/opt/rocm/.info/version", "7.0.2-1\n")
    for path in programs:
        sandbox.before(f"/opt/rocm/{path}", TRUE_TOOL, mode=0o755)
    (sandbox.work / "before/opt/rocm/bin").mkdir()
    for path, target in links.items():
        (sandbox.work / "before/opt/rocm" / path).symlink_to(target)
    passed(sandbox.run("rocm", "install.sh", provider="image", version="7.0.2"))
    for path in links:
        assert printed(sandbox, f"/opt/rocm/{path}") == "gfx90a\n"
    assert sandbox.written("/opt/rocm/lib/llvm/bin/llvm").read_text() == TRUE_TOOL
    passed(sandbox.run("rocm", "finish.sh"))
    written = sandbox.written("/opt/rocm")
    assert {path: str((written / path).readlink()) for path in links} == links
    assert (written / programs[0]).read_text() == TRUE_TOOL


def test_the_folders_that_lumi_and_its_modules_bind_are_made(debian: Sandbox) -> None:
    options = [f"{layer}.provider=host" for layer in ("slingshot", "mpich")]
    binds = resolve(open_catalog().materials("rocm", "lumi-g"), options).binds()
    paths = {bind.path for bind in binds}
    assert "/boot" in paths, "RCCL reads the kernel's configuration there"
    assert {"/opt/cray", "/run/cxi"} < paths, "Cray MPICH and Slingshot's libraries are there"
    passed(debian.enter(["bash", "-euc", mount_points(binds)]))
    for path in paths:
        assert debian.written(path).is_dir(), path
    passed(check(debian, "mount_points.sh"))
