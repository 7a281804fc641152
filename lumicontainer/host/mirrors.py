"""Mirrors of the URLs in recipes: from ``--mirror`` and the user's file.

A mirror replaces a prefix of URLs. It decides from where bytes are downloaded, not which bytes are
accepted: no key and no image contains it.
"""

import ipaddress
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lumicontainer.core.yaml import readers
from lumicontainer.core.yaml.nodes import Node, Scalar
from lumicontainer.core.yaml.parse import parse_yaml
from lumicontainer.core.yaml.urls import NO_HOST, has_valid_host, without_secrets
from lumicontainer.errors import DownloadError, HostError, Place, Problem, Problems, did_you_mean
from lumicontainer.system.files import trust
from lumicontainer.system.terminal import masking

OPTION = "--mirror"
VARIABLE = "LUMICONTAINER_MIRRORS"
"""Holds the mirrors for the steps of a build: lines of a prefix, a space and its replacement."""
DOCKER, _PLAIN = "docker://", "http://"
_HUB = "docker.io"
_FROM, _TO = ("https", "http", "docker"), ("https", "http", "file", "docker")


def mirrors_file() -> Path:
    """Return the user's file of mirrors."""
    home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    # Path.expanduser raises an error for a user without a home folder.
    return Path(os.path.expanduser(home)) / "lumicontainer" / "mirrors.yaml"  # noqa: PTH111


def read_mirrors(options: Iterable[str]) -> dict[str, str]:
    """Return the mirrors of the user's file and of the options, which win.

    Raises ``InputError`` with all problems of both.
    """
    problems, options = Problems(), [*options]
    masking.hide_urls(options)
    mirrors = _read_file(mirrors_file(), problems)
    for option in options:
        words = option.partition("=")[::2]
        old, new = (Scalar(Place(OPTION, line=0), each, plain=False) for each in words)
        read_old, read_new = _old(old, problems), _new(new, problems)
        if read_old and read_new:
            mirrors[read_old] = read_new
    _check_pairs(mirrors, problems)
    problems.raise_if_any()
    return mirrors


def _read_file(path: Path, problems: Problems) -> dict[str, str]:
    # Mirrors of another user would decide what a build downloads; only a lock would notice.
    if os.path.lexists(path) and (doubt := trust.doubt(path, "these mirrors", "XDG_CONFIG_HOME")):
        raise HostError(doubt)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        problems.add("cannot read the mirrors", str(path), why=str(error))
        return {}
    masking.hide_urls([text])
    root = parse_yaml(text, str(path), problems)
    return (readers.mapping(_new, key=_old)(root, problems) or {}) if root else {}


def _old(node: Node, problems: Problems) -> str | None:
    return _address(node, problems, "prefix of a mirror", _FROM)


def _new(node: Node, problems: Problems) -> str | None:
    """Read the replacement of a prefix; a folder of this host becomes a URL."""
    text = readers.text(node, problems)
    if text is None:
        return None
    address = Path(text).as_uri() + "/" * text.endswith("/") if text.startswith("/") else text
    pair = _address(Scalar(node.place, address, plain=False), problems, "mirror", _TO)
    if missing := missing_folder(pair or ""):
        problems.add("folder of the mirror not found", node.place, why=missing[0], hint=missing[1])
        return None
    return pair


def _address(node: Node, problems: Problems, what: str, schemes: tuple[str, ...]) -> str | None:
    text = readers.text(node, problems)
    if text is None:
        return None
    scheme, _, rest = text.partition("://")
    why, hint = "", f"write {OPTION} FROM=TO, such as https://github.com/=/srv/mirrors/github/"
    if scheme in schemes and rest and not any(map(str.isspace, text)):
        if has_valid_host(text):
            return text
        why = NO_HOST
    forms, shown = ", ".join(f"{each}://…" for each in schemes), without_secrets(text)
    problems.add(f"invalid {what} '{shown}': expected {forms}", node.place, why=why, hint=hint)
    return None


def _check_pairs(pairs: Mapping[str, str], problems: Problems) -> None:
    for old, whole in pairs.items():
        image, new = old.startswith(DOCKER), without_secrets(whole)
        if (image and new.startswith("file:")) or (not image and new.startswith(DOCKER)):
            why = f"'{old}' names {'images' if image else 'files'}, and '{new}' does not"
            hint = f"name a registry: {DOCKER}HOST/, http://127.0.0.1:PORT/" if image else ""
            problems.add(f"invalid mirror '{new}' of '{old}'", OPTION, why=why, hint=hint)
        elif image and new.startswith(_PLAIN) and not _is_this_host(new):
            why = "over plain http, anyone on the way could change the image"
            problems.add("a registry requires https", OPTION, why=why, hint=f"write {DOCKER}HOST/")
        elif image and new != whole:
            why = "images of registries are read without a login"
            hint = "name a registry that asks for no password"
            problems.add(f"the mirror '{new}' holds a password", OPTION, why=why, hint=hint)


def _is_this_host(url: str) -> bool:
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def folder_of(mirror: str) -> Path | None:
    """Return the folder of this host that a mirror names; it may end in the start of a name."""
    if not mirror.startswith("file://"):
        return None
    path = Path(unquote(urlsplit(mirror).path))
    return path if path.is_dir() else path.parent


def missing_folder(mirror: str) -> tuple[str, str] | None:
    """Return why the folder of a mirror is missing, and a hint; None if it exists.

    A mirror may also end in the start of names: /srv/git/lib serves libcxi and libfabric.
    """
    folder = folder_of(mirror)
    if folder is None:
        return None
    path = Path(unquote(urlsplit(mirror).path))
    if not str(folder).strip("/") and path == folder:
        return "it is the root folder of this host", "name the folder of the mirror itself"
    names = [each.name for each in folder.iterdir()] if folder.is_dir() else []
    begins = not mirror.endswith("/") and str(folder).strip("/")
    if path.is_dir() or (begins and any(name.startswith(path.name) for name in names)):
        return None
    near = did_you_mean(path.name, names)
    hint = near if near.startswith("did") else f"make {path}, or correct {OPTION} FROM=TO"
    return f"{path} does not exist", hint


def mirror_lines(mirrors: Mapping[str, str]) -> str:
    """Return mirrors in the form that the shell of a step reads."""
    return "".join(f"{old} {new}\n" for old, new in sorted(mirrors.items()))


def mirrored_image(image: str, mirrors: Mapping[str, str]) -> str:
    """Return the name of an image at its mirror, else the name itself.

    As in docker, ``ubuntu:noble`` is ``docker.io/library/ubuntu:noble``.
    """
    whole = DOCKER + whole_image(image)
    mirror = mirrored(whole, mirrors)
    return image if mirror == whole else mirror.partition("://")[2]


def mirrored(url: str, mirrors: Mapping[str, str]) -> str:
    """Return a URL at the mirror of its longest prefix, else the URL itself."""
    old = max((each for each in mirrors if url.startswith(each)), key=len, default="")
    return mirrors[old] + url.removeprefix(old) if old else url


def require_guarded(url: str, mirrors: Mapping[str, str]) -> None:
    """Raise ``DownloadError`` if an input without a hash would be downloaded by plain http."""
    mirror = mirrored(url, mirrors)
    if mirror.startswith(_PLAIN) and not _is_this_host(mirror):
        why = "its mirror uses plain http: anyone on the way could change it"
        hint = "add its sha256 (or all 40 digits of a commit), or name a mirror by https"
        raise DownloadError(Problem("cannot download a source without a hash", url, why, hint))


def whole_image(image: str) -> str:
    """Return the name of an image with its registry."""
    first, slash, _ = image.partition("/")
    if slash and first != _HUB and ("." in first or ":" in first or first == "localhost"):
        return image
    name = image.removeprefix(f"{_HUB}/")
    return f"{_HUB}/{name}" if "/" in name else f"{_HUB}/library/{name}"


def plain_registry(image: str, mirrors: Mapping[str, str]) -> bool:
    """Return whether an image comes from a registry on this host by plain http.

    The mirror's prefix is not enough: the rest of the name may belong to the host's name.
    """
    mirror = mirrored(DOCKER + whole_image(image), mirrors)
    return mirror.startswith(_PLAIN) and _is_this_host(mirror)
