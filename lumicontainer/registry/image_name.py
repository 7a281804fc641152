"""Read the name of an image in a registry: ``oci://HOST/NAME:TAG`` or ``oci://HOST/NAME@DIGEST``.

The forms of names, tags and digests are those of the OCI distribution specification.
"""

import ipaddress
import re
from typing import NamedTuple
from urllib.parse import urlsplit

from lumicontainer.core.yaml.urls import find_url_fault, without_secrets
from lumicontainer.errors import InputError, Problem

SCHEME = "oci://"
_DOCKER = "docker://"
_OTHERS = ("oras://", _DOCKER, "https://", "http://")
_NAME = re.compile(
    r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*"
)
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_HUB, _HUB_SERVER = "docker.io", "registry-1.docker.io"
_FORM = "write oci://HOST/NAME:TAG, such as oci://registry.example.org/project/image:1.0"


class ImageName(NamedTuple):
    """Hold the host, with its port if any, the name, and a tag or a digest."""

    host: str
    name: str
    tag: str

    def __str__(self) -> str:
        return f"{SCHEME}{self.host}/{self.name}{'@' if self.is_digest else ':'}{self.tag}"

    @property
    def is_digest(self) -> bool:
        """Return whether it names an image by its digest."""
        return self.tag.startswith("sha256:")

    @property
    def server(self) -> str:
        """Return the host that answers, with its port."""
        return _HUB_SERVER if self.host == _HUB else self.host

    @property
    def is_of_this_host(self) -> bool:
        """Return whether the registry listens on this machine's loopback."""
        name = urlsplit(f"//{self.host}").hostname or ""
        try:
            return name == "localhost" or ipaddress.ip_address(name).is_loopback
        except ValueError:
            return False

    @property
    def repository(self) -> str:
        """Return its name without the tag."""
        return f"{SCHEME}{self.host}/{self.name}"

    def by_digest(self, digest: str) -> "ImageName":
        """Return the reference to an image of the same name by its digest."""
        return self._replace(tag=digest)


def parse_image_name(text: str) -> ImageName:
    """Return what a text names; raise ``InputError`` if it names no image of a registry."""
    rest = text.removeprefix(SCHEME)
    if rest == text:
        other = next((each for each in _OTHERS if text.startswith(each)), "")
        shown = without_secrets(text)
        hint = f"write {SCHEME}{shown.removeprefix(other)}" if other else _FORM
        if other == _DOCKER:
            hint += f", or begin a recipe with it: lumicontainer init mine --base-image {shown}"
        raise _invalid(text, "it does not begin with oci://", hint)
    if fault := find_url_fault(f"https://{rest.partition('@sha256:')[0]}"):
        raise _invalid(text, fault.why, _FORM)
    host, _, path = rest.partition("/")
    named, at, digest = path.partition("@")
    name, colon, tag = named.partition(":")
    tag = digest if at else tag if colon else "latest"
    if not _NAME.fullmatch(name):
        small = name.lower()
        hint = f"write {SCHEME}{host}/{small}:{tag}" if _NAME.fullmatch(small) else _FORM
        raise _invalid(text, f"expected a name in lowercase, got '{name}'", hint)
    if not (_DIGEST if at else _TAG).fullmatch(tag):
        raise _invalid(text, f"invalid {'digest' if at else 'tag'} '{tag}'", _FORM)
    if host == _HUB and "/" not in name:
        name = f"library/{name}"
    return ImageName(host, name, tag)


def parse_repository(text: str, option: str) -> ImageName:
    """Return what ``oci://HOST/NAME`` names, whose tag means nothing.

    Raises ``InputError`` for something else, also for a tag or a digest.
    """
    reference = parse_image_name(text)
    if "@" in text or ":" in text.rpartition("/")[2]:
        what, why = "expected a name without a tag", "each layer gets a tag of its own"
        raise InputError(Problem(what, option, why, f"write {reference.repository}"))
    return reference


def _invalid(text: str, why: str, hint: str) -> InputError:
    return InputError(Problem(f"invalid image '{without_secrets(text)}'", why=why, hint=hint))
