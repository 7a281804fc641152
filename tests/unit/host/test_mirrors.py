"""Mirrors from options and the user's file decide from where steps and bases are downloaded."""

from collections.abc import Callable
from pathlib import Path

import pytest

from lumicontainer.core.plan.plan import make_plan
from lumicontainer.core.render.render import render_base
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.errors import HostError, InputError
from lumicontainer.host.mirrors import mirror_lines, mirrored_image, plain_registry, read_mirrors
from lumicontainer.host.site import read_site, require_mirror, stage_site

from ...programs import run

HUB = "https://github.com/"
HERE = "http://127.0.0.1:5000"


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of the user's file of mirrors, in a separate folder."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    path = tmp_path / "config/lumicontainer/mirrors.yaml"
    path.parent.mkdir(parents=True)
    return path


def test_an_option_counts_before_the_user_s_file(file: Path) -> None:
    file.write_text(f"{HUB}: https://git.site/\nhttps://a.example/: http://a.site/\n")
    assert read_mirrors([f"{HUB}=https://other.site/"]) == {
        HUB: "https://other.site/",
        "https://a.example/": "http://a.site/",
    }


@pytest.mark.slow
def test_a_folder_of_this_host_becomes_a_url_that_git_and_curl_read(tmp_path: Path) -> None:
    folder = tmp_path / "my mirrors"
    folder.mkdir()
    mirrors = read_mirrors([f"{HUB}={folder}/"])
    assert mirrors == {HUB: f"file://{tmp_path}/my%20mirrors/"}
    (folder / "x").write_text("x")
    assert run(["curl", "--silent", f"{mirrors[HUB]}x"]).stdout == "x"


@pytest.mark.parametrize(
    ("option", "complaint"),
    [
        ("github.com=/tmp", "invalid prefix of a mirror 'github.com': expected https://…, http"),
        (f"{HUB}", "invalid mirror '': expected https://…, http://…, file://…, docker://…"),
        (f"{HUB}=ssh://git@site/", "invalid mirror"),
        (f"{HUB}=https://a b/", "invalid mirror"),
        (f"{HUB}=docker://site/", "invalid mirror"),
        (f"{HUB}=file://[x", "why: it has no valid host"),
        (f"{HUB}=https://[x/", "why: it has no valid host"),
        (f"{HUB}=https://site:99999/", "why: it has no valid host"),
        ("https://[x/=https://site/", "why: it has no valid host"),
        ("docker://docker.io/=/tmp/", "invalid mirror"),
        ("docker://docker.io/=http://site.example/", "a registry requires https"),
        ("docker://docker.io/=http://127.0.0.1.example/", "a registry requires https"),
        ("docker://docker.io/=http://127.0.0.1@example/", "a registry requires https"),
    ],
)
def test_a_mirror_that_can_be_none_is_refused(option: str, complaint: str) -> None:
    with pytest.raises(InputError) as error:
        read_mirrors([option])
    assert complaint in str(error.value)
    assert "--mirror" in str(error.value)


@pytest.mark.parametrize(
    ("target", "why", "hint"),
    [
        ("/nope", "/nope does not exist", "make /nope, or correct --mirror FROM=TO"),
        ("file:///nope", "/nope does not exist", "make /nope"),
        ("/", "it is the root folder of this host", "name the folder of the mirror itself"),
        ("file:///", "it is the root folder of this host", "name the folder of the mirror itself"),
        ("{here}/mirorr/", "mirorr does not exist", "did you mean 'mirror'?"),
        ("{here}/mirr/", "mirr does not exist", "did you mean 'mirror'?"),
        ("{here}/x", "x does not exist", "correct --mirror FROM=TO"),
    ],
)
def test_a_missing_folder_is_refused(tmp_path: Path, target: str, why: str, hint: str) -> None:
    (tmp_path / "mirror").mkdir()
    with pytest.raises(InputError, match="folder of the mirror not found") as error:
        read_mirrors([f"{HUB}={target.format(here=tmp_path)}"])
    (problem,) = error.value.problems
    assert why in problem.why
    assert hint in problem.hint
    assert problem.where == "--mirror"


def test_a_mirror_may_be_the_beginning_of_names(tmp_path: Path) -> None:
    (tmp_path / "libcxi").mkdir()
    assert read_mirrors([f"{HUB}={tmp_path}/lib"]) == {HUB: f"file://{tmp_path}/lib"}


@pytest.mark.slow
def test_a_missing_mirror_of_debian_names_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUMICONTAINER_MIRROR", "file:///nope")
    with pytest.raises(HostError, match="/nope does not exist") as error:
        read_site("bookworm")
    assert error.value.problems[0].where == "LUMICONTAINER_MIRROR"


def test_what_is_wrong_with_the_file_is_reported_at_its_place(file: Path) -> None:
    file.write_text(f"{HUB}: [a]\nftp://a.example/: https://b.example/\n")
    with pytest.raises(InputError) as error:
        read_mirrors(["x"])
    places = {problem.where for problem in error.value.problems}
    assert places == {f"{file}:1:{len(HUB) + 3}", f"{file}:2:1", "--mirror"}


@pytest.mark.parametrize(
    ("image", "old", "new", "expected"),
    [
        ("ubuntu:1", "docker://docker.io/", f"{HERE}/", "127.0.0.1:5000/library/ubuntu:1"),
        ("ubuntu:1", "docker://docker.io/", "http://localhost/", "localhost/library/ubuntu:1"),
        ("docker.io/ubuntu:1", "docker://docker.io/", "https://h/", "h/library/ubuntu:1"),
        ("a/b:c", "docker://docker.io/", "docker://h/d/", "h/d/a/b:c"),
        ("ubuntu@sha256:12", "docker://docker.io/library/", "https://h/", "h/ubuntu@sha256:12"),
        ("quay.io/a/b", "docker://docker.io/", "https://h/", "quay.io/a/b"),
        ("quay.io/a/b", "docker://quay.io/", "https://h/", "h/a/b"),
        ("localhost:5000/a", "docker://localhost:5000/", "https://h/", "h/a"),
        ("ubuntu", "https://docker.io/", "https://h/", "ubuntu"),
    ],
)
def test_a_registry_s_mirror_serves_its_images(
    image: str, old: str, new: str, expected: str
) -> None:
    shorter = {} if expected == image else {"docker://d": "https://shorter/"}
    mirrors = {old: new, **shorter}
    assert mirrored_image(image, mirrors) == expected
    assert plain_registry(image, mirrors) == new.startswith("http:")


def test_a_prefix_that_only_begins_as_this_host_s_is_not_spoken_to_plainly() -> None:
    mirrors = {"docker://h": "http://127.0.0.1"}
    assert mirrored_image("h.example/a", mirrors) == "127.0.0.1.example/a"
    assert not plain_registry("h.example/a", mirrors)


def test_a_base_comes_from_its_mirror_and_keeps_its_key(resolved: Callable[..., Resolved]) -> None:
    base = "summary: x\nbootstrap: {cpu: {agent: docker, docker_image: 'ubuntu:noble'}}\n"
    base += 'provides: {python: "3.12"}\n'
    plan = make_plan(resolved({"layers/tiny/layer.yaml": base}), ())
    image = mirrored_image(plan.bootstrap.image, {"docker://docker.io/": f"{HERE}/"})
    text = render_base(plan.bootstrap._replace(image=image), mirror="")
    assert "Bootstrap: docker\nFrom: 127.0.0.1:5000/library/ubuntu:noble\n" in text
    assert plan.base_inputs["image"] == "ubuntu:noble"


@pytest.mark.slow
def test_debian_s_archive_has_a_mirror_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUMICONTAINER_MIRROR", "https://debian.example/debian")
    (tmp_path / "debian").mkdir()
    site = read_site("bookworm", read_mirrors([f"https://debian.example/={tmp_path}/"]))
    assert site.mirror == f"{tmp_path.as_uri()}/debian"
    assert tmp_path / "debian" in site.folders


@pytest.mark.parametrize(
    "mirror", ["https://debian.example\n%setup\n touch pwned", "foo", "/srv/debian", "ftp://a.b/c"]
)
def test_a_mirror_of_debian_is_a_url_on_one_line(mirror: str) -> None:
    with pytest.raises(HostError, match="LUMICONTAINER_MIRROR=https://HOST"):
        require_mirror(mirror)


@pytest.mark.parametrize("mirror", ["https://debian.example/a%20b", "file:///srv/debian"])
def test_a_good_url_of_a_mirror_of_debian_is_kept(mirror: str) -> None:
    assert require_mirror(mirror) == mirror


@pytest.mark.slow
def test_a_step_knows_the_mirrors_and_sees_their_folders(tmp_path: Path) -> None:
    folder, staged = tmp_path / "it's $(id)", tmp_path / "staged"
    for path in (folder, staged):
        path.mkdir()
    mirrors = read_mirrors([f"{HUB}={folder}/", f"{HUB}a/=https://a.site/"])
    site = read_site("", mirrors)
    assert folder in site.folders
    assert site.mirror == "", "Debian's mirror serves no other system"
    stage_site(site, staged, "/staged")
    assert not (staged / "sources.list").exists()
    script = f'. {staged}/site.sh; printf %s "$LUMICONTAINER_MIRRORS"'
    assert run(["bash", "-c", script]).stdout == mirror_lines(mirrors)
