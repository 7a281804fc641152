"""At every door a URL that holds a secret, or that anyone could change, leaves no trace."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lumicontainer.core.yaml.urls import find_url_fault, without_secrets
from lumicontainer.errors import INPUT_WRONG, InputError
from lumicontainer.extending.reading.additions import read_additions
from lumicontainer.host.mirrors import read_mirrors
from lumicontainer.system.terminal import masking

from ..cli.conftest import Run, lumicontainer
from ..conftest import HELLO, Write

__all__ = ["lumicontainer"]

CANARY = "canary5e3f9b1c77d2"
HASH = "0" * 64
SECRETS = [
    f"https://me:{CANARY}@host.invalid/x-1.0-py3-none-any.whl",
    f"https://{CANARY}@host.invalid/x-1.0-py3-none-any.whl",
    f"https://me:{CANARY}%21@host.invalid/x.whl#sha256={HASH}",
    f"https://host.invalid/x-1.0-py3-none-any.whl?token={CANARY}",
    f"https://host.invalid/x.whl?a=b&X-Amz-Signature={CANARY}",
    f"https://host.invalid/x.whl?a=b;access_token={CANARY}",
]
PLAIN = "http://host.invalid/x-1.0-py3-none-any.whl"
OTHERS = [
    "ftp://host.invalid/x.whl",
    "https:///x.whl",
    "HTTPS://host/x",
    "data:,x",
    "https://a:b/c",
    "https://a:99999/c",
    "https://[::1::]/c",
    "file://[x/c",
]


@pytest.fixture(autouse=True)
def no_known_secrets() -> None:
    """Let no mask of another test hide what a message shows."""
    masking._hidden.clear()


Door = Callable[[Path, str], str]


def by_argument(folder: Path, url: str) -> str:
    return _extend([f"x @ {url}"], [])


def by_requirements(folder: Path, url: str) -> str:
    return _file(folder / "requirements.txt", f"six\nx @ {url}\n")


def by_pyproject(folder: Path, url: str) -> str:
    return _file(folder / "pyproject.toml", f'[project]\ndependencies = ["x @ {url}"]\n')


def by_environment(folder: Path, url: str) -> str:
    return _file(folder / "environment.yml", f'dependencies:\n- pip:\n  - "x @ {url}"\n')


def by_editable(folder: Path, url: str) -> str:
    text = f'[build-system]\nrequires = ["x @ {url}"]\n'
    (folder / "pyproject.toml").write_text(text)
    return _extend([], [], [folder])


DOORS = [by_argument, by_requirements, by_pyproject, by_environment, by_editable]


def _file(path: Path, text: str) -> str:
    path.write_text(text)
    return _extend([], [path])


def _extend(packages: list[str], files: list[Path], folders: list[Path] | None = None) -> str:
    with pytest.raises(InputError) as caught:
        read_additions(packages, files, folders or [])
    return str(caught.value)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("url", SECRETS)
def test_extend_takes_no_url_with_a_secret(door: Door, url: str, tmp_path: Path) -> None:
    printed = door(tmp_path, url)
    assert "would be kept" in printed
    assert CANARY not in printed


@pytest.mark.parametrize("door", DOORS)
def test_extend_takes_nothing_by_plain_http_without_a_hash(door: Door, tmp_path: Path) -> None:
    assert "by plain http anyone on the way can change it" in door(tmp_path, PLAIN)
    assert "by plain http" in door(tmp_path, f"{PLAIN}#sha256=123")
    assert "by plain http" in door(tmp_path, f"http://127.0.0.1/x.whl#notsha256={HASH}")


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("url", OTHERS)
def test_extend_takes_no_url_of_another_form(door: Door, url: str, tmp_path: Path) -> None:
    assert "invalid URL" in door(tmp_path, url)


def test_extend_takes_what_a_hash_pins(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text(f"x @ {PLAIN} --hash=sha256:{HASH}\n")
    lines = (f"x@ {PLAIN}", f"y@ {PLAIN}#sha256={HASH}", "z@ https://host.invalid/z.whl?a=b")
    requirements = read_additions([*lines[1:]], [file], []).lines
    assert sorted(each.replace(" @ ", "@ ") for each in requirements) == sorted(lines)


@pytest.mark.parametrize(
    "line",
    [
        "https://me:{0}@host.invalid/x.whl",
        "--index-url https://me:{0}@host.invalid/simple",
        "-e git+https://me:{0}@host.invalid/x",
        "x @ https://me:{0}@host.invalid/x whl",
        "x[ @ https://me:{0}@host.invalid/x",
    ],
)
def test_a_line_that_cannot_be_read_shows_no_secret(
    line: str, lumicontainer: Run, tmp_path: Path
) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text(f"{line.format(CANARY)}\n")
    (tmp_path / "x.sif").write_bytes(b"")
    done = lumicontainer("extend", tmp_path / "x.sif", "-r", file, "-o", tmp_path / "y.sqsh")
    assert done.returncode == INPUT_WRONG
    assert CANARY not in done.stdout + done.stderr


SOURCES = {
    "url": "sources: [{{url: '{0}', file: x.whl, sha256: '{1}'}}]\n",
    "git": "sources: [{{git: '{0}', commit: '{2}', folder: x}}]\n",
    "index": "packages: {{python: [x==1.0]}}\npip_installs: [{{package: x, index: '{0}'}}]\n",
}


@pytest.mark.parametrize("kind", ["url", "git"])
@pytest.mark.parametrize("url", SECRETS)
@pytest.mark.parametrize("verb", ["check", "lock", "render"])
def test_no_layer_names_a_source_with_a_secret(
    kind: str, url: str, verb: str, lumicontainer: Run, write: Write, tmp_path: Path
) -> None:
    url = url.replace("#", "%23")
    layer = f"summary: x\n{SOURCES[kind].format(url, HASH, HASH[:40])}"
    recipes = write({**HELLO, "layers/greet/layer.yaml": layer})
    words = ("-o", tmp_path / "lock.yaml") if verb == "lock" else ()
    done = lumicontainer(verb, "hello", "--recipes", recipes, *words)
    assert done.returncode == INPUT_WRONG, done.stderr
    assert CANARY not in done.stdout + done.stderr
    assert not (tmp_path / "lock.yaml").exists()


def test_an_import_leaves_secrets_behind(lumicontainer: Run, tmp_path: Path) -> None:
    lines = [f"ADD {url} /opt/" for url in SECRETS]
    lines += [f"RUN git clone https://me:{CANARY}@host.invalid/x /opt/x"]
    lines += [f"RUN pip install 'x @ {url}'" for url in SECRETS]
    lines += [f"RUN wget '{url}'" for url in SECRETS]
    lines += [f"RUN pip install --index-url https://me:{CANARY}@host.invalid/simple x"]
    (tmp_path / "Dockerfile").write_text("\n".join(["FROM debian:bookworm", *lines, ""]))
    words = ("--name", "draft", "--output", tmp_path / "drafts")
    done = lumicontainer("import", tmp_path / "Dockerfile", *words)
    assert (tmp_path / "drafts").is_dir(), done.stderr
    assert CANARY not in done.stdout + done.stderr
    files = [each for each in tmp_path.rglob("*") if each.is_file() and each.name != "Dockerfile"]
    assert CANARY not in "".join(each.read_text(errors="replace") for each in files)


@pytest.mark.parametrize("option", ["{0}=https://b.invalid/", "https://a.invalid/={0}", "{0}"])
def test_a_mirror_that_cannot_be_read_shows_no_secret(
    option: str, lumicontainer: Run, write: Write
) -> None:
    url = f"gopher://me:{CANARY}@c.invalid/"
    words = ("--mirror", option.format(url))
    done = lumicontainer("build", "hello", "--recipes", write(HELLO), "--dry-run", *words)
    assert done.returncode == INPUT_WRONG, done.stderr
    assert CANARY not in done.stdout + done.stderr


@pytest.mark.parametrize("to", ["http://me:{0}@127.0.0.1:9/", "docker://me:{0}@host.invalid/"])
def test_a_mirror_of_images_has_no_password(to: str) -> None:
    with pytest.raises(InputError, match="holds a password") as caught:
        read_mirrors([f"docker://docker.io/={to.format(CANARY)}"])
    assert CANARY not in str(caught.value)


IMAGES = {
    "a base": ("init", "mine", "--base-image", "docker://{0}/x:1"),
    "a base of another form": ("init", "mine", "--base-image", "oci://{0}/x:1"),
    "a push": ("push", "x.sif", "oci://{0}/x:1"),
    "a pull": ("pull", "oci://{0}/x:1"),
    "layers to take": ("build", "hello", "--dry-run", "--cache-from", "oci://{0}/x"),
    "layers to send": ("build", "hello", "--dry-run", "--cache-to", "oci://{0}/x"),
}


@pytest.mark.parametrize("words", IMAGES.values(), ids=IMAGES)
def test_no_image_of_a_registry_is_named_with_a_secret(
    words: tuple[str, ...], lumicontainer: Run, write: Write, tmp_path: Path
) -> None:
    place = ("--recipes", write(HELLO)) if "hello" in words else ()
    (tmp_path / "x.sif").write_bytes(b"")
    done = lumicontainer(
        *(word.format(f"me:{CANARY}@host.invalid") for word in words), *place, cwd=tmp_path
    )
    assert done.returncode == INPUT_WRONG, done.stderr
    assert "error: " in done.stderr
    assert CANARY not in done.stdout + done.stderr


@pytest.mark.parametrize("end", ["", "@sha256:12"])
def test_no_recipe_names_a_base_with_a_secret(end: str, lumicontainer: Run, write: Write) -> None:
    base = HELLO["layers/tiny/layer.yaml"]
    base = base.replace("debian:bookworm", f"me:{CANARY}@host.invalid/x:1{end}")
    recipes = write({**HELLO, "layers/tiny/layer.yaml": base})
    done = lumicontainer("check", "hello", "--recipes", recipes)
    assert done.returncode == INPUT_WRONG
    assert "expected an image such as debian:bookworm" in done.stderr
    assert f"got 'host.invalid/x:1{end}'" in done.stderr
    assert CANARY not in done.stdout + done.stderr


GOOD = [
    *("https://host/x", "https://host:8443/x?a=b&sort=key#f", "https://h/x?author=me&monkey=2"),
    *("https://[::1]:8/x", "https://host/a@b", "https://host/~me/x%20y+z"),
]


def test_other_urls_are_accepted() -> None:
    assert [url for url in GOOD if find_url_fault(url)] == []


BROKEN = ["https://host/a b", "https://host/\n", "https://host\\@evil/", "https://ho st", "", "x"]


@pytest.mark.parametrize("url", [*SECRETS, *BROKEN, f"x:me:{CANARY}@h", f"//me:{CANARY}@h"])
def test_what_is_shown_of_a_url_is_no_secret(url: str) -> None:
    wrong = find_url_fault(url)
    assert wrong
    assert CANARY not in json.dumps(wrong) + without_secrets(url)
