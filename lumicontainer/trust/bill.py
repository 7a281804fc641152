"""Hold a bill of materials: each package and each source of an image, with its package URL."""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from packageurl import PackageURL

from lumicontainer.inside.image.names import plain_name

DEB, PYPI, SOURCE = "deb", "pypi", "source"
"""The kinds of components."""
_GITHUB = re.compile(r"https://github\.com/([\w.-]+)/([\w.-]+?)(?:\.git)?/?")


class Component(NamedTuple):
    """Hold one package or source of an image."""

    kind: str
    name: str
    version: str
    purl: str
    """Its package URL, which is also its reference in documents."""
    sha256: str = ""
    licences: tuple[str, ...] = ()
    """The licences that the package itself states, all of which may apply."""
    url: str = ""
    """The address of a source."""


class Bill(NamedTuple):
    """Hold all components of an image."""

    name: str
    version: str
    """The profile of the image, else its platform."""
    components: tuple[Component, ...]

    def of_kind(self, *kinds: str) -> list[Component]:
        """Return the components of some kinds."""
        return [each for each in self.components if each.kind in kinds]


def bill_of(name: str, version: str, components: Iterable[Component]) -> Bill:
    """Return a bill in the order of package URLs, which names each component once."""
    by_purl: dict[str, Component] = {}
    for each in components:
        by_purl.setdefault(each.purl, each)
    return Bill(name, version, tuple(by_purl[purl] for purl in sorted(by_purl)))


def deb_purl(name: str, version: str, release: Mapping[str, str], **more: str) -> str:
    """Return the package URL of a Debian package; ``release`` is the image's os-release."""
    vendor = release.get("ID") or "debian"
    distribution = f"{vendor}-{release['VERSION_ID']}" if "VERSION_ID" in release else ""
    qualifiers = {**more, "distro": distribution}
    return PackageURL("deb", vendor, name, version, _filled(qualifiers)).to_string()


def pypi_purl(name: str, version: str) -> str:
    """Return the package URL of a Python package."""
    return PackageURL("pypi", None, plain_name(name), version).to_string()


def git_purl(url: str, commit: str) -> str:
    """Return the package URL of a commit of a git repository."""
    if match := _GITHUB.fullmatch(url):
        return PackageURL("github", match[1].lower(), match[2].lower(), commit).to_string()
    name = url.rstrip("/").rpartition("/")[2].removesuffix(".git")
    return PackageURL("generic", None, name, commit, {"vcs_url": f"git+{url}"}).to_string()


def file_purl(name: str, url: str, sha256: str) -> str:
    """Return the package URL of a file that was downloaded."""
    checksum = f"sha256:{sha256}" if sha256 else ""
    qualifiers = {"download_url": url, "checksum": checksum}
    return PackageURL("generic", None, name, None, _filled(qualifiers)).to_string()


def _filled(values: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in values.items() if value}
