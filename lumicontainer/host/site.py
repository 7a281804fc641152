"""The site's CA certificates, proxies and mirrors: for builds, and never in an image."""

import ast
import os
import platform
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from lumicontainer.core import shell
from lumicontainer.core.apptainer_syntax import fits_a_line
from lumicontainer.core.yaml.urls import has_valid_host
from lumicontainer.errors import HostError, LumicontainerError, Problem
from lumicontainer.host.mirrors import VARIABLE, folder_of, mirror_lines, mirrored, missing_folder
from lumicontainer.system import process
from lumicontainer.system.files.regular import kind, open_regular
from lumicontainer.system.os_errors import refused
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
    """Hold the settings of the host that a build uses."""

    release: str
    """The release of Debian that debootstrap installs; empty for another base."""
    mirror: str
    """The URL from which debootstrap and apt read Debian; empty if the host has none."""
    trust: Path | None
    environment: Mapping[str, str]
    folders: tuple[Path, ...]
    """The folders of pip's configuration and of mirrors; bound at the same path during a build."""
    mirrors: Mapping[str, str] = {}
    """By prefix of URLs: its replacement."""
    pip: Mapping[str, str] = {}
    """The result of ``pip_settings``."""


def read_site(release: str, mirrors: Mapping[str, str] | None = None) -> Site:
    """Read the host's CA bundle, proxies, pip configuration and apt mirror."""
    pip, mirrors = pip_settings(), mirrors or {}
    debian = mirrored(debian_mirror(release), mirrors) if release else ""
    if missing := missing_folder(debian):
        raise HostError(Problem("mirror of Debian not found", "LUMICONTAINER_MIRROR", *missing))
    folders = [folder for folder in map(folder_of, (debian, *mirrors.values())) if folder]
    environment = {name: value for name, value in os.environ.items() if _PROXY.match(name)}
    environment |= {f"PIP_{name.upper().replace('-', '_')}": value for name, value in pip.items()}
    if environment.get("PIP_RETRIES") == "0":  # Then pip does not tell a server out of reach.
        environment["PIP_RETRIES"] = "1"
    for name in ("PIP_CERT", "PIP_CONSTRAINT"):  # They name files of this host.
        environment.pop(name, None)
    folders = list(dict.fromkeys([*_local_folders(pip.values()), *folders]))
    masking.hide_urls([debian, *mirrors.values(), *environment.values()])
    return Site(release, debian, _trust(pip), environment, tuple(folders), mirrors, pip)


def with_pip(site: Site, pip: Mapping[str, str]) -> Site:
    """Return the settings of a host with other settings of pip, and their folders."""
    folders = dict.fromkeys((*site.folders, *_local_folders(pip.values())))
    masking.hide_urls(pip.values())
    return site._replace(pip=pip, folders=tuple(folders))


_PIP_SCOPES = ("global", "download", "install", ":env:")
"""The scopes of pip's settings, the weakest first (pip's user guide, "Precedence")."""


def pip_settings() -> dict[str, str]:
    """Return pip's settings of this host about origin and versions of packages, by option name."""
    names = {"index-url", "extra-index-url", "no-index", "find-links", "constraint"}
    names |= {"cert", "timeout", "retries", "proxy"}
    settings: dict[str, dict[str, str]] = {scope: {} for scope in _PIP_SCOPES}
    for line in _pip_config().splitlines():
        key, _, value = line.partition("=")
        scope, _, option = key.partition(".")
        option = option.strip(".")
        if option in names and scope in settings:
            with suppress(ValueError, SyntaxError):  # Pip prints Python literals.
                value = str(ast.literal_eval(value))
            settings[scope][option] = " ".join(value.split())
    return {option: value for values in settings.values() for option, value in values.items()}


def host_trust() -> Path | None:
    """Return the certificates that this host trusts, without pip's own; None for Python's."""
    return _trust({})


def _pip_config() -> str:
    """Return the configuration that the first working pip of this host prints.

    The environment of this program has no pip if uv or pipx made it.
    """
    for command in (process.own_python("-m", "pip"), ["pip3"], ["pip"]):
        with suppress(LumicontainerError):
            return process.capture([*command, "config", "list"])
    named = [(name, value) for name, value in os.environ.items() if name.startswith("PIP_")]
    return "".join(f":env:.{n[4:].lower().replace('_', '-')}={value!r}\n" for n, value in named)


def _trust(pip: Mapping[str, str]) -> Path | None:
    named = [("pip's option cert", pip.get("cert", ""))]
    named += [(name, os.environ.get(name, "")) for name in _CA_VARIABLES]
    named += [("the system", path) for path in _CA_FILES]
    return next((Path(path).resolve() for name, path in named if is_bundle(path, name)), None)


def is_bundle(path: str, name: str) -> bool:
    """Return whether there is a file at a path, which ``name`` gives.

    Raises ``HostError`` if that cannot be seen, or if the user may not read the file.
    """
    try:
        if not path or kind(Path(path).stat().st_mode):
            return False
        open_regular(Path(path)).close()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        hint = "let your account read the file, or name another one"
        raise refused(error, f"cannot read the CA bundle of {name}", path, hint) from error
    return True


def _local_folders(values: Iterable[str]) -> Iterable[Path]:
    """Yield the folders of this host in pip's settings, which are paths or ``file:`` URLs.

    The pages of an index, in its folder ``simple``, link to files in a folder next to it.
    """
    for word in " ".join(values).split():
        if not has_valid_host(word):
            continue
        path = Path(unquote(urlsplit(word).path) if word.startswith("file:") else word)
        folder = path.parent if path.name == "simple" else path
        if path.is_absolute() and folder.is_dir():
            yield folder


def debian_mirror(release: str) -> str:
    """Return the mirror for debootstrap; empty if none is known."""
    return find_mirror(release)[0]


def find_mirror(release: str) -> tuple[str, str]:
    """Return the mirror for debootstrap, empty if none is known, and what names it.

    LUMICONTAINER_MIRROR comes first, then the sources of a Debian host, then debootstrap's default.
    """
    if named := os.environ.get("LUMICONTAINER_MIRROR", ""):
        return named, "LUMICONTAINER_MIRROR"
    if named := _apt_mirror(release):
        return named, "apt's sources"
    return debootstrap_mirror(release), "debootstrap"


_SCHEMES = ("http", "https", "file")
"""The schemes of debootstrap. Debian's cloud images use mirror+file: of apt."""
_URL = re.compile(r"https?://|file:/")
# Without the downloaded lists apt answers in 20 ms; with them it reads them for 500 ms.
_PACKAGE_LISTS = (
    *("apt-get", "indextargets", "-o", "APT::Get::IndexTargets::ReleaseInfo=false"),
    *("-o", "Dir::State::Lists=/nonexistent/"),
    *("--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages"),
)


def _apt_mirror(release: str) -> str:
    """Return the URI from which this host installs packages; empty if it is not a Debian.

    A mirror has every release, so the URI of the host's own release fits too.
    """
    try:
        system = platform.freedesktop_os_release()
        listed = process.capture(_PACKAGE_LISTS) if system["ID"] == "debian" else ""
    except (OSError, LumicontainerError):
        return ""
    for uri, suite, component in map(str.split, listed.splitlines()):
        fits = suite in (release, system.get("VERSION_CODENAME")) and component == "main"
        if fits and uri.partition(":")[0] in _SCHEMES:
            return uri.rstrip("/")
    return ""


def debootstrap_mirror(release: str) -> str:
    """Return debootstrap's mirror for a release, else its general one.

    Its scripts for Debian's current releases name none.
    """
    script = Path("/usr/share/debootstrap/scripts") / release
    for path in (script, process.find("debootstrap")):
        if path is not None and path.is_file():
            match = _DEFAULT_MIRROR.search(path.read_text())
            if match:
                return match.group(1)
    return ""


def require_mirror(mirror: str) -> str:
    """Return ``mirror``; raise ``HostError`` if it is empty, or not a URL on one line."""
    if mirror and not (_URL.match(mirror) and fits_a_line(mirror)):
        what = "invalid URL of a mirror of Debian"
        hint = "write its URL: LUMICONTAINER_MIRROR=https://HOST/debian"
        raise HostError(Problem(what, ascii(mirror), hint=hint))
    if mirror:
        return mirror
    what, where = "no mirror of Debian for debootstrap", "/etc/apt/sources.list.d, debootstrap"
    hint = "install debootstrap, or name a mirror with LUMICONTAINER_MIRROR=URL"
    raise HostError(Problem(what, where, hint=hint))


def require_keyring() -> None:
    """Raise ``HostError`` if debootstrap could not verify packages."""
    if not DEBIAN_KEYRING.is_file():
        what = "cannot verify Debian's packages"
        why = "without this keyring debootstrap accepts any package, and only warns"
        hint = "install the package debian-archive-keyring (make engine does so)"
        raise HostError(Problem(what, str(DEBIAN_KEYRING), why, hint))


def require_plain_path(folder: Path) -> None:
    """Raise ``HostError`` if debootstrap could not work in a folder, because of its name."""
    if any(map(str.isspace, str(folder))):
        what, why = "debootstrap cannot work in this folder", "its path has a blank"
        hint = "name another folder with LUMICONTAINER_TMPDIR"
        raise HostError(Problem(what, str(folder), why, hint))


_APT_NAMES = 'APT::Cmd::Pattern-Only "true";\n'
"""An unknown name is not a pattern: otherwise python3.1 would match python3-1."""


def stage_site(site: Site, folder: Path, seen_as: str) -> None:
    """Write into ``folder`` the script that a step sources; containers see it at ``seen_as``."""
    variables = {**site.environment, "APT_CONFIG": f"{seen_as}/apt.conf"}
    settings = _APT_NAMES
    if site.mirrors:
        variables[VARIABLE] = mirror_lines(site.mirrors)
        (folder / "apt").mkdir()
        for name in _APT_METHODS:
            method = folder / "apt" / name
            method.write_bytes((_STEP / "apt-method.pl").read_bytes())
            method.chmod(0o755)
            settings += f'Dir::Bin::Methods::{name} "{seen_as}/apt/{name}";\n'
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
