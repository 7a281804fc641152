"""Where a site has what recipes name by upstream's URLs: from ``--mirror`` and the user's file.

A mirror is a prefix of URLs and what stands in its place. It decides whence bytes come, and not
which bytes: it is in no key and in no image.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lumicontainer.core.nodes import Node, Scalar
from lumicontainer.core.schema import readers
from lumicontainer.core.schema.yaml_nodes import parse
from lumicontainer.errors import (
    DownloadError,
    HostError,
    InputError,
    Place,
    Problem,
    Problems,
    did_you_mean,
)
from lumicontainer.system.files import trust

OPTION = "--mirror"
VARIABLE = "LUMICONTAINER_MIRRORS"
"""What tells the steps of a build: lines of a prefix, a space, and what stands in its place."""
DOCKER, _PLAIN = "docker://", "http://"
_HUB = "docker.io"
_FROM, _TO = ("https", "http", "docker"), ("https", "http", "file", "docker")


def mirrors_file() -> Path:
    """Return the user's file of mirrors."""
    home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    # Path.expanduser raises where the user has no home.
    return Path(os.path.expanduser(home)) / "lumicontainer" / "mirrors.yaml"  # noqa: PTH111


def read_mirrors(options: Iterable[str]) -> dict[str, str]:
    """Return the mirrors of the user's file, and of the options, which count before it.

    Raises ``InputError`` with all that is wrong with either.
    """
    problems = Problems()
    found = _read_file(mirrors_file(), problems)
    for option in options:
        place = Place(OPTION, line=0)
        old, _, new = option.partition("=")
        read_old = _old(Scalar(place, old, plain=False), problems)
        read_new = _new(Scalar(place, new, plain=False), problems)
        if read_old and read_new:
            found[read_old] = read_new
    _check_pairs(found, problems)
    problems.raise_if_any()
    return found


def _read_file(path: Path, problems: Problems) -> dict[str, str]:
    # Another user's mirrors would decide what a build takes; a lock alone would notice.
    if os.path.lexists(path) and (doubt := trust.doubt(path, "these mirrors", "XDG_CONFIG_HOME")):
        raise HostError(doubt)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(Problem("the file cannot be read", str(path), str(error))) from error
    root = parse(text, str(path), problems)
    return (readers.mapping(_new, key=_old)(root, problems) or {}) if root else {}


def _old(node: Node, problems: Problems) -> str | None:
    return _address(node, problems, "what a mirror replaces", _FROM)


def _new(node: Node, problems: Problems) -> str | None:
    """Read what stands in the place of a prefix; a folder of this host becomes a URL."""
    text = readers.text(node, problems)
    if text is None:
        return None
    address = Path(text).as_uri() + "/" * text.endswith("/") if text.startswith("/") else text
    found = _address(Scalar(node.place, address, plain=False), problems, "a mirror", _TO)
    if missing := missing_folder(found or ""):
        problems.add("this mirror is not there", node.place, why=missing[0], hint=missing[1])
        return None
    return found


def _address(node: Node, problems: Problems, what: str, schemes: tuple[str, ...]) -> str | None:
    text = readers.text(node, problems)
    if text is None:
        return None
    scheme, colon, rest = text.partition("://")
    if scheme in schemes and colon and rest and not any(map(str.isspace, text)):
        return text
    forms = ", ".join(f"{each}://…" for each in schemes)
    hint = f"write {OPTION} FROM=TO, such as https://github.com/=/srv/mirrors/github/"
    problems.add(f"{what} is one of {forms}, not '{text}'", node.place, hint=hint)
    return None


def _check_pairs(found: Mapping[str, str], problems: Problems) -> None:
    """Note what cannot stand in the place of the other: images come from registries alone."""
    for old, new in found.items():
        image = old.startswith(DOCKER)
        if (image and new.startswith("file:")) or (not image and new.startswith(DOCKER)):
            why = f"'{old}' names {'images' if image else 'files'}, and '{new}' does not"
            hint = f"name a registry: {DOCKER}HOST/, http://127.0.0.1:PORT/" if image else ""
            problems.add("this is no mirror of that", OPTION, why=why, hint=hint)
        elif image and new.startswith(_PLAIN) and not _is_this_host(new):
            why = "a registry by plain http could be anyone's; only this host's own is not"
            problems.add("an image comes by https", OPTION, why=why, hint=f"write {DOCKER}HOST/")


def _is_this_host(url: str) -> bool:
    """Tell whether what a URL names never leaves this host."""
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def folder_of(mirror: str) -> Path | None:
    """Return the folder of this host that a mirror names, without what it only begins with."""
    if not mirror.startswith("file://"):
        return None
    path = Path(unquote(urlsplit(mirror).path))
    return path if path.is_dir() else path.parent


def missing_folder(mirror: str) -> tuple[str, str] | None:
    """Return why a mirror that should be a folder of this host is none, and what to do, or None.

    What stands there may also be the beginning of names: /srv/git/lib serves libcxi and libfabric.
    """
    folder = folder_of(mirror)
    root = folder is not None and not str(folder).strip("/")
    if folder is None or (not root and _begins_something(mirror, folder)):
        return None
    path = Path(unquote(urlsplit(mirror).path))
    if path == folder and root:
        return "it is all of this host", "name the folder of the mirror itself"
    names = [each.name for each in folder.iterdir()] if folder.is_dir() else []
    near = did_you_mean(path.name, names)
    hint = near if near.startswith("did") else f"make {path}, or correct {OPTION} FROM=TO"
    return f"{path} does not exist", hint


def _begins_something(mirror: str, folder: Path) -> bool:
    name = Path(unquote(urlsplit(mirror).path)).relative_to(folder)
    if not folder.is_dir() or str(name) == ".":
        return folder.is_dir()
    whole = mirror.endswith("/")
    return not whole and any(each.name.startswith(str(name)) for each in folder.iterdir())


def lines(mirrors: Mapping[str, str]) -> str:
    """Return mirrors as the shell of a step reads them."""
    return "".join(f"{old} {new}\n" for old, new in sorted(mirrors.items()))


def mirrored_image(image: str, mirrors: Mapping[str, str]) -> str:
    """Return the name of an image at the mirror that has it, else as it is.

    As docker itself, ``ubuntu:noble`` stands for ``docker.io/library/ubuntu:noble``.
    """
    whole = DOCKER + whole_image(image)
    there = mirrored(whole, mirrors)
    return image if there == whole else there.partition("://")[2]


def mirrored(url: str, mirrors: Mapping[str, str]) -> str:
    """Return a URL at the mirror with the longest prefix of it, else as it is."""
    fitting = [old for old in mirrors if url.startswith(old)]
    if not fitting:
        return url
    old = max(fitting, key=len)
    return mirrors[old] + url.removeprefix(old)


def require_guarded(url: str, mirrors: Mapping[str, str]) -> None:
    """Raise ``DownloadError`` where what no hash pins would come by plain http."""
    there = mirrored(url, mirrors)
    if there.startswith(_PLAIN) and not _is_this_host(there):
        why = "its mirror is one by plain http: anyone on the way could change it"
        hint = "add its sha256 (a commit of 40 digits), or name a mirror by https"
        raise DownloadError(Problem("a source that nothing pins was not fetched", url, why, hint))


def whole_image(image: str) -> str:
    """Return the name of an image with its registry."""
    first, slash, _ = image.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return image
    return f"{_HUB}/{image}" if slash else f"{_HUB}/library/{image}"


def plain_registry(image: str, mirrors: Mapping[str, str]) -> bool:
    """Tell whether an image comes from a registry of this very host by plain http.

    A mirror's prefix alone does not say so: the rest of the name may belong to the host.
    """
    there = mirrored(DOCKER + whole_image(image), mirrors)
    return there.startswith(_PLAIN) and _is_this_host(there)
