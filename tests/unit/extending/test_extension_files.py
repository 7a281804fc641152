"""Files of packages are downloaded, installed and compared by their hashes."""

import hashlib
import re
import shutil
import threading
import zipfile
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.pylock import Pylock

from lumicontainer.errors import (
    DownloadError,
    HostError,
    InputError,
    LockError,
    SpaceError,
    StepError,
)
from lumicontainer.extending import extension, facts
from lumicontainer.extending.install import download, proof
from lumicontainer.extending.install.bounds import require_room
from lumicontainer.extending.install.download import with_password
from lumicontainer.extending.lock.locked import RemoteFile, read_locked
from lumicontainer.extending.lock.relock import read_answer, read_pins, require_pinned_files
from lumicontainer.host.site import Site
from lumicontainer.packages.pylock import read_pylock
from lumicontainer.system import budget, process
from lumicontainer.system.files import foreign

from ...faults import hostile
from ...packages import LOCK

SITE = Site("", "", None, {}, ())
ZEROS = "0" * 64
HASHES = f'hashes = {{ sha256 = "{ZEROS}" }}'


def lock_of(*blocks: str) -> Pylock:
    return read_pylock("".join([LOCK, *blocks]))


def block(name: str, rest: str) -> str:
    return f'[[packages]]\nname = "{name}"\nversion = "1.0"\n{rest}\n'


def wheels(*names: str) -> str:
    urls = ", ".join(f'{{ url = "https://x.example/{name}.whl", {HASHES} }}' for name in names)
    return f"wheels = [{urls}]"


def test_the_best_wheel_of_a_lock_is_chosen() -> None:
    better = "a-1.0-cp311-cp311-manylinux_2_28_x86_64"
    others = ("a-1.0-py3-none-any", "a-1.0-cp311-cp311-manylinux2014_x86_64")
    (package,) = read_locked(lock_of(block("a", wheels(*others, better))), "3.11")
    assert package.is_wheel
    name = f"{better}.whl"
    assert package.file == RemoteFile(f"https://x.example/{name}", ZEROS, name)


def test_of_equal_wheels_the_highest_build_is_chosen() -> None:
    names = [f"a-1.0-{build}-py3-none-any" for build in ("1", "10", "2")]
    (package,) = read_locked(lock_of(block("a", wheels("a-1.0-py3-none-any", *names))), "3.11")
    assert package.file
    assert package.file.name == "a-1.0-10-py3-none-any.whl"


def test_an_index_names_a_wheel_whatever_its_address_is() -> None:
    file = f'name = "a-1.0-py3-none-any.whl", url = "https://x.example/download?file=a", {HASHES}'
    (package,) = read_locked(lock_of(block("a", f"wheels = [{{ {file} }}]")), "3.11")
    assert package.is_wheel


@pytest.mark.parametrize("name", ["b-1.0-py3-none-any", "a-2.0-py3-none-any", "odd"])
def test_a_wheel_of_another_package_or_version_is_no_file_of_a_package(name: str) -> None:
    archive = f'archive = {{ url = "https://x.example/{name}.whl", {HASHES} }}'
    with pytest.raises(InputError, match="a has no file"):
        read_locked(lock_of(block("a", archive)), "3.11")


def test_a_package_of_a_lock_has_a_file_with_a_hash() -> None:
    url = "url = 'https://x.example/a-1.0.tar.gz'"
    with pytest.raises(InputError, match="a has no file with a sha256"):
        read_locked(lock_of(block("a", f"sdist = {{ {url}, hashes = {{ md5 = '0' }} }}")), "3.11")
    with pytest.raises(InputError, match="a has no file with a sha256"):
        read_locked(
            lock_of(block("a", f"vcs = {{ type = 'git', {url}, commit-id = '0' }}")), "3.11"
        )


@pytest.mark.parametrize("address", ["me:S3cr3t@x.example/a", "x.example/a.whl?token=S3cr3t&b="])
def test_an_address_of_an_index_that_holds_a_secret_is_refused(address: str) -> None:
    """The lock would keep it."""
    file = f'name = "a-1.0-py3-none-any.whl", url = "https://{address}-1.0-py3-none-any.whl"'
    lock = lock_of(block("a", f"wheels = [{{ {file}, {HASHES} }}]"))
    with pytest.raises(InputError, match=r"invalid URL .* of a") as refused:
        read_locked(lock, "3.11")
    assert "S3cr3t" not in str(refused.value)


SECRET = "https://me:S3cr3t@x.example/a-1.0"
SDIST = f'sdist = {{ url = "{SECRET}.tar.gz", hashes = {{ md5 = "0" }} }}'
UNUSED = (
    f"""wheels = [
    {{ url = "https://x.example/a-1.0-py3-none-any.whl", {HASHES} }},
    {{ url = "{SECRET}-py2-none-any.whl", hashes = {{ md5 = "0" }} }},
]""",
    f"{wheels('a-1.0-py3-none-any')}\n{SDIST}",
    SDIST.replace("sdist", "archive"),
    f'index = "{SECRET}"\n{wheels("a-1.0-py3-none-any")}',
    f'vcs = {{ type = "git", url = "{SECRET}", commit-id = "0" }}',
)


@pytest.mark.parametrize("files", UNUSED, ids=["wheel", "source", "archive", "index", "git"])
def test_an_address_with_a_secret_is_refused_even_if_its_file_is_not_used(files: str) -> None:
    with pytest.raises(InputError, match="holds a user name or a password") as refused:
        read_locked(lock_of(block("a", files)), "3.11")
    assert "S3cr3t" not in str(refused.value)


def test_names_and_versions_alone_count_in_a_lock_that_code_could_change(tmp_path: Path) -> None:
    own = f'[[packages]]\nname = "mine"\ndirectory = {{ path = "{tmp_path}", editable = true }}\n'
    archive = f'archive = {{ url = "https://x.example/b.tar.gz", {HASHES} }}'
    lock = lock_of(block("a", wheels("a-1.0-py3-none-any")), block("b", archive), own)
    pins = read_pins(lock, ["a", "b @ https://y.example/b.tar.gz", f"-e {tmp_path}"], [tmp_path])
    assert pins.lines == ("a==1.0", "b @ https://y.example/b.tar.gz")
    assert pins.settings.count("[[dependency-metadata]]") == 2
    assert [(each.name, each.directory.path) for each in pins.own if each.directory] == [
        ("mine", str(tmp_path))
    ]
    assert "x.example" not in "".join(map(str, pins))


STRANGE = (
    '[[packages]]\nname = "a"\nversion = "1.0\\n-e /etc"\n',
    '[[packages]]\nname = "a\\nb"\nversion = "1.0"\n',
    '[[packages]]\nname = "mine"\ndirectory = { path = "/etc", editable = true }\n',
    '[[packages]]\nname = "a"\n',
    'packages = "a"\n',
    "packages = [1]\n",
    f"a = {'[' * 5000}",
    f"a = {'9' * 5000}",
    "not TOML",
)


@pytest.mark.parametrize("lock", STRANGE, ids=range(len(STRANGE)))
def test_a_lock_that_uv_would_not_print_is_refused(lock: str) -> None:
    with pytest.raises(StepError, match="a source changed the answer of uv"):
        read_pins(read_answer(f"{LOCK}{lock}"), ["a"], [])


GIVEN = (wheels("a-1.0-py3-none-any"), f'archive = {{ url = "file:///given/a.tar.gz", {HASHES} }}')
FOREIGN = (
    block("b", wheels("b-1.0-py3-none-any")),
    block("a", wheels("a-1.0-py3-none-any")).replace("1.0", "2.0"),
    block("a", 'directory = { path = "/home/you" }'),
    block("a", 'directory = { path = "/home/you", editable = true }'),
    block("a", "vcs = { type = 'git', url = 'https://x.example/a', commit-id = '0' }"),
    block("a", f'archive = {{ url = "file:///home/you/a.tar.gz", {HASHES} }}'),
    block("a", f'archive = {{ url = "file:///given/../home/you/a.tar.gz", {HASHES} }}'),
    block("a", f'archive = {{ path = "/home/you/a.tar.gz", {HASHES} }}'),
)


@pytest.mark.parametrize("answer", FOREIGN, ids=range(len(FOREIGN)))
def test_files_of_pinned_packages_alone_are_taken_from_the_answer_of_an_image(answer: str) -> None:
    """A hostile image prints the answer of uv: no folder of the user may be mounted for it."""
    pins = read_pins(lock_of(block("a", wheels("a-1.0-py3-none-any"))), ["a"], [])
    for files in GIVEN:
        require_pinned_files(lock_of(block("a", files)), pins, [Path("/given")])
    with pytest.raises(StepError, match="a source changed the answer of uv"):
        require_pinned_files(lock_of(answer), pins, [Path("/given")])


@pytest.fixture
def offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RemoteFile:
    """Return a file of an index, with a cache of its own."""
    monkeypatch.setenv("LUMICONTAINER_CACHE", str(tmp_path / "cache"))
    path = hostile.write_wheel(tmp_path, "a", {"a.py": "A = 1\n"})
    return RemoteFile(path.as_uri(), hashlib.sha256(path.read_bytes()).hexdigest(), path.name)


class _Slow(BaseHTTPRequestHandler):
    """Send a byte every 50 ms for two minutes; refuse other files once that has begun."""

    begun: threading.Event
    gone: threading.Event

    def do_GET(self) -> None:
        if self.path != "/slow":
            self.begun.wait(60)
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(1 << 30))
        self.end_headers()
        try:
            for _ in range(2400):
                self.wfile.write(b"x")
                self.begun.set()
                self.gone.wait(0.05)
        except OSError:
            self.gone.set()

    def log_message(self, *words: object) -> None:
        """Print nothing."""


@pytest.mark.slow
def test_the_first_failure_ends_the_other_downloads(offered: RemoteFile, tmp_path: Path) -> None:
    _Slow.begun, _Slow.gone = threading.Event(), threading.Event()
    with ThreadingHTTPServer(("127.0.0.1", 0), _Slow) as server:
        threading.Thread(target=server.serve_forever).start()
        url = f"http://127.0.0.1:{server.server_port}"
        slow = RemoteFile(f"{url}/slow", ZEROS, "b-1.0.tar.gz")
        absent = RemoteFile(f"{url}/absent", "1" * 64, "c-1.0.tar.gz")
        try:
            with pytest.raises(DownloadError, match=r"cannot download c-1\.0"):
                download.download([offered, slow, absent], tmp_path, SITE)
            assert _Slow.gone.wait(60)
        finally:
            server.shutdown()


@pytest.mark.parametrize(
    "path",
    [
        "a-1.0.egg-info/PKG-INFO",
        "a.egg-info",
        "a-2.0.dist-info/METADATA",
        "A-1.0.DIST-INFO/METADATA",
        "b-1.0.dist-info/METADATA",
        "a.dist-info/METADATA",
    ],
)
def test_a_wheel_has_the_metadata_of_itself_alone(tmp_path: Path, path: str) -> None:
    wheel = hostile.write_wheel(tmp_path, "a", {"a.py": "A = 1\n", path: "x"})
    with pytest.raises(StepError, match="it has the metadata of another package"):
        proof.InstalledWheel(wheel).read()
    assert proof.InstalledWheel(hostile.write_wheel(tmp_path, "a", {"a.py": "A = 1\n"})).read()


def test_a_file_is_kept_by_its_hash_and_hashed_again(offered: RemoteFile, tmp_path: Path) -> None:
    content = (tmp_path / offered.name).read_bytes()
    for number in range(3):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        (place,) = download.download([offered], folder, SITE).values()
        assert (place.name, place.read_bytes()) == (offered.name, content)
        kept = tmp_path / "cache/packages" / offered.sha256
        if number == 0:  # The second file comes from the cache.
            (tmp_path / offered.name).rename(tmp_path / "away")
        else:
            (tmp_path / "away").rename(tmp_path / offered.name) if number == 1 else None
            kept.write_bytes(b"damaged")
    assert [path.name for path in kept.parent.iterdir()] == [offered.sha256]


def test_a_file_of_another_hash_is_refused(offered: RemoteFile, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="does not match its sha256"):
        download.download([offered._replace(sha256=ZEROS)], tmp_path, SITE)
    assert not list((tmp_path / "cache/packages").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("url", ["https://x.example/", "https://x.example/..", "file:///a%2Fb"])
def test_a_file_has_a_plain_name(offered: RemoteFile, tmp_path: Path, url: str) -> None:
    with pytest.raises(DownloadError):
        download.download([offered._replace(url=url)], tmp_path, SITE)


def test_the_packages_of_an_extension_have_one_limit_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUMICONTAINER_CACHE", str(tmp_path / "cache"))
    files = []
    for name in ("a", "b", "c"):
        path = hostile.write_wheel(tmp_path, name, {f"{name}.py": "A = 1\n"})
        files.append(
            RemoteFile(path.as_uri(), hashlib.sha256(path.read_bytes()).hexdigest(), path.name)
        )
    sizes = [(tmp_path / each.name).stat().st_size for each in files]
    monkeypatch.setattr(budget, "PACKAGES", budget.PACKAGES._replace(most=sum(sizes)))
    assert len(download.download(files, tmp_path, SITE)) == 3
    monkeypatch.setattr(budget, "PACKAGES", budget.PACKAGES._replace(most=sum(sizes) - 1))
    why = f"all files together have more than {sum(sizes) - 1} bytes"
    with pytest.raises(DownloadError, match=why):
        download.download(files, tmp_path, SITE)


def test_the_next_download_removes_what_a_killed_one_left(
    offered: RemoteFile, tmp_path: Path
) -> None:
    store = tmp_path / "cache/packages"
    store.mkdir(parents=True, mode=0o700)
    store.parent.chmod(0o700)
    for name in ("x", "x.log"):
        (store / f".{offered.sha256}.partial-{name}").touch()
    download.download([offered], tmp_path, SITE)
    assert [path.name for path in store.iterdir()] == [offered.sha256]


class _Endless(BaseHTTPRequestHandler):
    """Send 2 MiB, and then wait until the client ends the connection."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(bytes(2 << 20))
        self.connection.settimeout(60)
        with suppress(OSError):
            self.connection.recv(1)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.mark.slow
def test_a_download_ends_while_it_exceeds_the_limit_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUMICONTAINER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(budget, "PACKAGES", budget.PACKAGES._replace(most=1 << 20))
    with HTTPServer(("127.0.0.1", 0), _Endless) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        file = RemoteFile(f"http://127.0.0.1:{server.server_port}/a.whl", ZEROS, "a.whl")
        with pytest.raises(DownloadError, match="all files together have more than"):
            download.download([file], tmp_path, SITE)
        server.shutdown()
    assert not list((tmp_path / "cache/packages").iterdir())


def test_no_package_is_downloaded_after_the_limit(
    offered: RemoteFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "PACKAGES", budget.PACKAGES._replace(seconds=0))
    with pytest.raises(DownloadError, match="all files together did not end within 0 s"):
        download.download([offered], tmp_path, SITE)
    assert not list((tmp_path / "cache/packages").iterdir())


def test_a_host_without_curl_gets_the_name_of_its_package(
    offered: RemoteFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "find", lambda _: None)
    with pytest.raises(HostError, match="curl not found") as error:
        download.download([offered._replace(url="https://x.example/a.whl")], tmp_path, SITE)
    assert error.value.problems[0].hint == "install the package curl"


def test_a_login_goes_to_its_own_host_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    pip = {"extra-index-url": "https://me:word@a.example/simple"}
    assert with_password("https://a.example/x.whl", pip) == "https://me:word@a.example/x.whl"
    others = ("http://a.example/x", "https://b.example/x", "https://a.example:1/x")
    assert [with_password(each, pip) for each in others] == list(others)
    (tmp_path / ".netrc").write_text("machine b.example login me password a@b\n")
    (tmp_path / ".netrc").chmod(0o600)
    assert with_password("https://b.example/x", pip) == "https://me:a%40b@b.example/x"
    # The index chooses this address, and others on the way would read the password.
    assert with_password("http://b.example/x", pip) == "http://b.example/x"


class Installed:
    """A wheel, and the folder into which it was unpacked."""

    def __init__(self, folder: Path, files: dict[str, str]) -> None:
        self.wheel, self.place = hostile.write_wheel(folder, "a", files), folder / "place"
        with zipfile.ZipFile(self.wheel) as archive:
            archive.extractall(self.place)

    def compare(self) -> None:
        """Compare the installed files with the wheel."""
        proof.require_same(self.place, foreign.regular_files(self.place), [self.wheel])


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    entry = "[console_scripts]\nrun = a:main\n"
    return Installed(tmp_path, {"a/b.py": "A = 1\n", "a-1.0.dist-info/entry_points.txt": entry})


def test_installed_files_are_those_of_the_wheel_and_what_installers_make(
    installed: Installed,
) -> None:
    installed.compare()
    (installed.place / "bin").mkdir()
    (installed.place / "a/__pycache__").mkdir()
    for name in ("bin/run", "a/__pycache__/b.cpython-311.pyc", "a-1.0.dist-info/INSTALLER"):
        (installed.place / name).write_text("made")
    (installed.place / "a-1.0.dist-info/RECORD").write_text("written again")
    installed.compare()


OTHERS = ("a/c.py", "sitecustomize.py", "bin/walk", "a/__pycache__/c.cpython-311.pyc")


@pytest.mark.parametrize("name", [*OTHERS, "b-1.0.dist-info/INSTALLER", "evil.pth"])
def test_a_file_that_no_wheel_has_is_refused(installed: Installed, name: str) -> None:
    (installed.place / name).parent.mkdir(exist_ok=True)
    (installed.place / name).write_text("")
    with pytest.raises(StepError, match=r"is of no package"):
        installed.compare()


def test_a_changed_or_missing_file_is_refused(installed: Installed) -> None:
    module = installed.place / "a/b.py"
    module.write_text("A = 2\n")
    with pytest.raises(StepError, match=r"'a/b.py' differs from a-1.0-py3-none-any.whl"):
        installed.compare()
    module.unlink()
    with pytest.raises(StepError, match=r"'a/b.py' of a-1.0-py3-none-any.whl is missing"):
        installed.compare()


def test_a_wheel_whose_list_is_wrong_counts_by_its_content(installed: Installed) -> None:
    with zipfile.ZipFile(installed.wheel, "a") as archive:
        archive.writestr("a/more.py", "M = 1\n")
    (installed.place / "a/more.py").write_text("M = 1\n")
    installed.compare()


def test_what_is_no_wheel_is_refused(installed: Installed) -> None:
    installed.wheel.write_bytes(installed.wheel.read_bytes()[:100])
    with pytest.raises(StepError, match="cannot read the wheel"):
        installed.compare()


def with_member(wheel: Path, method: int, change: Callable[[bytearray, int], None]) -> None:
    """Add a file to a wheel, compressed by a method, and change its row of the directory."""
    with zipfile.ZipFile(wheel, "a", method) as archive:
        archive.writestr("a/more.py", "M = 1\n" * 99)
    content = bytearray(wheel.read_bytes())
    change(content, content.rindex(b"PK\x01\x02"))
    wheel.write_bytes(content)


def state_4_gib(content: bytearray, row: int) -> None:
    content[row + 24 : row + 28] = (0xFFFFFFF0).to_bytes(4, "little")


def state_as_many_packed(content: bytearray, row: int) -> None:
    content[row + 20 : row + 24] = len(content).to_bytes(4, "little")


@pytest.mark.parametrize(
    ("method", "change", "why"),
    [
        (zipfile.ZIP_LZMA, lambda *_: None, "'a/more.py' is compressed by method 14"),
        (zipfile.ZIP_DEFLATED, state_as_many_packed, "its files share bytes"),
        (zipfile.ZIP_DEFLATED, state_4_gib, "a-1.0-py3-none-any.whl unpacks to 6 files of 4.0 GiB"),
    ],
    ids=["another compression", "members that overlap", "a bomb"],
)
def test_a_wheel_that_is_made_to_fill_a_disk_is_refused_before_it_is_unpacked(
    installed: Installed,
    monkeypatch: pytest.MonkeyPatch,
    method: int,
    change: Callable[[bytearray, int], None],
    why: str,
) -> None:
    monkeypatch.setattr(budget, "UNPACKED", 1 << 30)
    require_room([installed.wheel], installed.place)
    with_member(installed.wheel, method, change)
    with pytest.raises(StepError, match=re.escape(why)):
        require_room([installed.wheel], installed.place)


def test_the_list_of_a_wheel_is_not_read_where_it_is_too_large(
    installed: Installed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lumicontainer.system.files.wheels._LARGEST_LIST", 400)
    with zipfile.ZipFile(installed.wheel, "a") as archive:
        archive.writestr("a/" + "x" * 900, "")
    with pytest.raises(StepError, match=r"its list of files has \d+ bytes"):
        require_room([installed.wheel], installed.place)


def test_wheels_that_find_no_space_are_not_unpacked(
    installed: Installed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 30))
    with_member(installed.wheel, zipfile.ZIP_DEFLATED, state_4_gib)
    with pytest.raises(SpaceError, match="not enough space for the packages"):
        require_room([installed.wheel], installed.place)


def test_a_list_that_no_reader_can_unpack_is_named(installed: Installed) -> None:
    damage = b"\x09\x04\x05\x00\xff"
    with zipfile.ZipFile(installed.wheel, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a-1.0.dist-info/RECORD", "x")
    content = installed.wheel.read_bytes()
    at = content.index(b"\x09\x04\x05\x00")
    installed.wheel.write_bytes(content[:at] + damage + content[at + len(damage) :])
    with pytest.raises(StepError, match="cannot read the wheel"):
        installed.compare()


def test_notes_of_uv_are_in_no_extension(installed: Installed) -> None:
    notes = installed.place / "a-1.0.dist-info"
    for path in (installed.place / ".lock", notes / "uv_cache.json"):
        path.write_text("")
    with (notes / "RECORD").open("a") as record:
        record.write("a-1.0.dist-info/uv_cache.json,sha256=x,0\n")
    installed.compare()
    proof.remove_notes_of_uv(installed.place, foreign.regular_files(installed.place))
    left = foreign.regular_files(installed.place)
    assert not [path for path in left if "uv_cache" in path or path == ".lock"]
    assert "uv_cache" not in (notes / "RECORD").read_text()
    assert "a/b.py" in (notes / "RECORD").read_text()


def test_an_image_that_is_replaced_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image, other = tmp_path / "mine.sif", tmp_path / "other.sif"
    image.write_text("an image")
    monkeypatch.setattr(extension, "read_facts", lambda _: facts.Facts("3.11", {}))
    before = extension.read_image_state(image, extension.look_at_image(image))
    before.require_same()
    shutil.copy2(image, other)
    other.replace(image)
    with pytest.raises(LockError, match="the image was replaced meanwhile"):
        before.require_same()
