"""The site's own trust and mirrors: used while a build runs, and left in no image."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from lumicontainer.core import shell
from lumicontainer.core.apptainer_syntax import fits_a_line
from lumicontainer.errors import HostError, LumicontainerError, Problem
from lumicontainer.host import apt_sources
from lumicontainer.host.mirrors import VARIABLE, folder_of, lines, mirrored, missing_folder
from lumicontainer.system import process
from lumicontainer.system.terminal import masking

_CA_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_CA_FILES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/var/lib/ca-certificates/ca-bundle.pem",
)
_STEP = Path(__file__).parents[1] / "step"
_APT_METHODS = ("http", "https")
DEBIAN_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_DEFAULT_MIRROR = re.compile(r"(?m)^\s*(?:default_mirror\s+|DEF_MIRROR=)[\"']?([^\s\"'$]+)")
_PROXY = re.compile(r"(?i)(https?|ftp|all|no)_proxy\Z")
_TRUST = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO")


class Site(NamedTuple):
    """Hold what a build borrows from its host."""

    release: str
    """The release of Debian that debootstrap makes; empty where the base is none of its."""
    mirror: str
    """The URL from which debootstrap and apt take Debian; empty where the host has none."""
    trust: Path | None
    environment: Mapping[str, str]
    folders: tuple[Path, ...]
    """Host folders that pip's configuration and mirrors name; seen at the same path while
    building."""
    mirrors: Mapping[str, str] = {}
    """What stands in the place of prefixes of URLs."""


def read_site(release: str, mirrors: Mapping[str, str] | None = None) -> Site:
    """Read the host's CA bundle, proxies, pip configuration and apt mirror."""
    pip, mirrors = pip_settings(), mirrors or {}
    debian = mirrored(debian_mirror(release), mirrors) if release else ""
    if missing := missing_folder(debian):
        raise HostError(
            Problem("the mirror of Debian is not there", "LUMICONTAINER_MIRROR", *missing)
        )
    folders = [folder for folder in map(folder_of, (debian, *mirrors.values())) if folder]
    environment = {name: value for name, value in os.environ.items() if _PROXY.match(name)}
    environment |= {f"PIP_{name.upper().replace('-', '_')}": value for name, value in pip.items()}
    environment.pop("PIP_CERT", None)
    site = Site(
        release=release,
        mirror=debian,
        trust=_trust(pip),
        environment=environment,
        folders=tuple(dict.fromkeys([*_local_folders(pip.values()), *folders])),
        mirrors=mirrors,
    )
    masking.hide_urls([debian, *mirrors.values(), *environment.values()])
    return site


_PIP_SCOPES = ("global", "download", "install", ":env:")
"""Of pip's settings, each before those that win over it (pip's user guide, "Precedence")."""


def pip_settings() -> dict[str, str]:
    """Return pip's settings of this host that say where packages come from, by option name."""
    wanted = {"index-url", "extra-index-url", "no-index", "find-links"}
    wanted |= {"cert", "timeout", "retries", "proxy"}
    settings: dict[str, dict[str, str]] = {scope: {} for scope in _PIP_SCOPES}
    for line in _pip_config().splitlines():
        key, _, value = line.partition("=")
        scope, _, option = key.partition(".")
        option = option.strip(".")
        if option in wanted and scope in settings:
            settings[scope][option] = " ".join(_unquoted(value).split())
    return {option: value for found in settings.values() for option, value in found.items()}


def _pip_config() -> str:
    """Return what the first pip of this host that answers says of its configuration.

    The environment of this program may have none (made by uv or pipx), and the host may have none.
    """
    for command in ([sys.executable, "-m", "pip"], ["pip3"], ["pip"]):
        try:
            return process.capture([*command, "config", "list"])
        except LumicontainerError:
            continue
    named = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    options = {name[4:].lower().replace("_", "-"): value for name, value in named.items()}
    return "".join(f":env:.{option}={value!r}\n" for option, value in options.items())


def _unquoted(value: str) -> str:
    """Return a value of ``pip config list``, which prints them as Python literals."""
    import ast  # noqa: PLC0415 - only builds need it

    try:
        return str(ast.literal_eval(value))
    except (ValueError, SyntaxError):
        return value


def _trust(pip: Mapping[str, str]) -> Path | None:
    named = [os.environ.get(name, "") for name in _CA_VARIABLES]
    for name in (pip.get("cert", ""), *named, *_CA_FILES):
        if name and Path(name).is_file():
            return Path(name).resolve()
    return None


def _local_folders(values: Iterable[str]) -> Iterable[Path]:
    """Yield the folders of this host that pip's settings name, as paths or ``file:`` URLs.

    The pages of an index, in its folder ``simple``, lead to files in a folder beside it.
    """
    seen = set()
    for word in " ".join(values).split():
        path = Path(unquote(urlsplit(word).path) if word.startswith("file:") else word)
        folder = path.parent if path.name == "simple" else path
        if path.is_absolute() and folder.is_dir() and folder not in seen:
            seen.add(folder)
            yield folder


def debian_mirror(release: str) -> str:
    """Return the mirror for debootstrap.

    It is what LUMICONTAINER_MIRROR says, else the host's own where it
    is a Debian, else debootstrap's default.
    """
    named = os.environ.get("LUMICONTAINER_MIRROR", "")
    return named or _apt_mirror(release) or debootstrap_mirror(release)


def _apt_mirror(release: str) -> str:
    """Return the URI from which this host, where it is a Debian itself, takes its packages.

    A mirror holds every release, so the host's own release serves as well as the wanted one.
    """
    try:
        system = Path("/etc/os-release").read_text()
    except OSError:
        return ""
    if not re.search(r"(?m)^ID=\"?debian\"?$", system):
        return ""
    own = re.findall(r"(?m)^VERSION_CODENAME=(\w+)$", system)
    return apt_sources.main_archive(_apt_sources(), (release, *own))


def _apt_sources() -> Iterable[str]:
    folder = Path("/etc/apt/sources.list.d")
    files = [Path("/etc/apt/sources.list")]
    files += sorted([*folder.glob("*.sources"), *folder.glob("*.list")])
    for path in files:
        try:
            yield path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue


def debootstrap_mirror(release: str) -> str:
    """Return the mirror that debootstrap itself takes: its script's for the release, else its own.

    The scripts of Debian's present releases name none.
    """
    script = Path("/usr/share/debootstrap/scripts") / release
    for path in (script, process.find("debootstrap")):
        if path is not None and path.is_file():
            found = _DEFAULT_MIRROR.search(path.read_text())
            if found:
                return found.group(1)
    return ""


def require_mirror(mirror: str) -> str:
    """Return ``mirror``; raise ``HostError`` where the host names none, or no line of text."""
    if not fits_a_line(mirror):
        what, hint = "the mirror of Debian is no URL", "write LUMICONTAINER_MIRROR=URL"
        raise HostError(Problem(what, ascii(mirror), hint=hint))
    if mirror:
        return mirror
    raise HostError(
        Problem(
            "no mirror is known from which debootstrap could take Debian",
            where="/etc/apt/sources.list.d, debootstrap",
            hint="install debootstrap, or name one with LUMICONTAINER_MIRROR=URL",
        )
    )


def require_keyring() -> None:
    """Raise ``HostError`` where debootstrap could not verify what it takes from a mirror."""
    if not DEBIAN_KEYRING.is_file():
        raise HostError(
            Problem(
                "Debian's packages could not be verified",
                where=str(DEBIAN_KEYRING),
                why="it is missing, and without it debootstrap takes any packages and only warns",
                hint="install the package debian-archive-keyring (make engine does so)",
            )
        )


_APT_NAMES = 'APT::Cmd::Pattern-Only "true";\n'
"""A name that no package has is not taken for a pattern: python3.1 would match python3-1."""


def stage_site(site: Site, folder: Path, seen_as: str) -> None:
    """Write into ``folder`` the script that a step sources; it is seen at ``seen_as`` inside."""
    variables = {**site.environment, "APT_CONFIG": f"{seen_as}/apt.conf"}
    settings = _APT_NAMES
    if site.mirrors:
        variables[VARIABLE] = lines(site.mirrors)
        settings += _stage_methods(folder / "apt", f"{seen_as}/apt")
    if site.mirror:
        (folder / "sources.list").write_text(f"deb {site.mirror} {site.release} main\n")
        settings += f'Dir::Etc::SourceList "{seen_as}/sources.list";\n'
    if site.trust is not None:
        bundle = f"{seen_as}/ca.crt"
        (folder / "ca.crt").write_bytes(site.trust.read_bytes())
        variables |= dict.fromkeys(_TRUST, bundle)
        settings += f'Acquire::https::CaInfo "{bundle}";\n'
    (folder / "apt.conf").write_text(settings)
    (folder / "site.sh").write_text(shell.exports(variables))


def _stage_methods(folder: Path, seen_as: str) -> str:
    """Write what stands before apt's methods, and return the settings by which apt runs it."""
    folder.mkdir()
    for name in _APT_METHODS:
        (folder / name).write_bytes((_STEP / "apt-method.pl").read_bytes())
        (folder / name).chmod(0o755)
    return "".join(f'Dir::Bin::Methods::{name} "{seen_as}/{name}";\n' for name in _APT_METHODS)
