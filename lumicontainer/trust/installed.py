"""Read the packages of an image from the records that dpkg and Python's installers keep in it."""

import os
import re
from collections.abc import Iterator, Mapping
from email.parser import HeaderParser
from pathlib import Path

from lumicontainer.constants import HOME
from lumicontainer.image import records, sif
from lumicontainer.image.assembly.content import Files
from lumicontainer.image.assembly.reader import read_squashfs
from lumicontainer.inside.image.names import plain_name
from lumicontainer.inside.image.user_software import LAYERS
from lumicontainer.trust.bill import DEB, PYPI, Component, deb_purl, pypi_purl

_MOST = 16 << 20
"""Bytes of a file that is read; dpkg's list of a large image has 3 MB."""
_STATUS = "/var/lib/dpkg/status"
_RELEASE = ("/usr/lib/os-release", "/etc/os-release")
_INSTALLED = "ok installed"
_METADATA = {".dist-info": "METADATA", ".egg-info": "PKG-INFO"}
_FOLDERS = ("/site-packages", "/dist-packages")
_SHORT = re.compile(r"[^\x00-\x1f\x7f-\x9f]{1,100}")
_FORMAT, _LICENCE = re.compile(rb"\s*Format:"), re.compile(rb"(?m)^License:(.+)$")
_UNSAID = ("", "unknown", "none", "dual license")
_SOURCE = re.compile(r"(\S+)(?: \((\S+)\))?")


def open_files(image: Path) -> Files:
    """Return the files of an image; raise ``InputError`` if it cannot be read."""
    place = sif.root(image)
    layer = read_squashfs(image, place.offset, size=place.size)
    return Files(layer.root, [layer])


def installed(files: Files) -> Iterator[Component]:
    """Yield the Debian packages and the Python packages of an image."""
    yield from _debian(files, _release(files))
    yield from _python(files)


def _release(files: Files) -> dict[str, str]:
    text = next(filter(None, (files.read(path, _MOST) for path in _RELEASE)), b"")
    rows = re.findall(r"(?m)^(ID|VERSION_ID)=\"?([\w.-]+)\"?$", text.decode("utf-8", "replace"))
    return dict(rows)


def _debian(files: Files, release: Mapping[str, str]) -> Iterator[Component]:
    text = (files.read(_STATUS, _MOST) or b"").decode("utf-8", "replace")
    for paragraph in text.split("\n\n"):
        fields = dict(re.findall(r"(?m)^([A-Z][\w-]*): (.*)$", paragraph))
        name, version = fields.get("Package", ""), fields.get("Version", "")
        if not (name and version and fields.get("Status", "").endswith(_INSTALLED)):
            continue
        qualifiers = {"arch": fields.get("Architecture", "")}
        if source := _SOURCE.fullmatch(fields.get("Source", "")):
            qualifiers["upstream"] = f"{source[1]}@{source[2]}" if source[2] else source[1]
        purl = deb_purl(name, version, release, **qualifiers)
        yield Component(DEB, name, version, purl, licences=_debian_licences(files, name))


def _debian_licences(files: Files, name: str) -> tuple[str, ...]:
    """Return the licences of a copyright file that machines can read (DEP-5)."""
    text = files.read(f"/usr/share/doc/{name}/copyright", _MOST) or b""
    if not _FORMAT.match(text):
        return ()
    names = (each.decode("utf-8", "replace").strip() for each in _LICENCE.findall(text))
    return tuple(sorted({each for each in names if _SHORT.fullmatch(each)}))


def _python(files: Files) -> Iterator[Component]:
    stated = dict(_distributions(files))
    for name, version in _listed(files) or stated:
        licences = stated.get((plain_name(name), version), ())
        purl = pypi_purl(name, version)
        yield Component(PYPI, plain_name(name), version, purl, licences=licences)


def _listed(files: Files) -> list[tuple[str, str]]:
    """Return the Python packages that the image's own record lists."""
    content = files.read(f"{HOME}/packages.json", _MOST)
    if content is None:
        return []
    try:
        return list(records.parse(content, records.PACKAGES).get("python", {}).items())
    except records.RecordError:
        return []  # A package may have an odd name.


def _distributions(files: Files) -> Iterator[tuple[tuple[str, str], tuple[str, ...]]]:
    """Yield the name, the version and the licences of each Python package."""
    for path, folder in files.folders():
        if path.endswith(_FOLDERS) or path.startswith(f"{LAYERS}/"):
            for name in folder.children:
                yield from _distribution(files, path, os.fsdecode(name))


def _distribution(
    files: Files, path: str, own: str
) -> Iterator[tuple[tuple[str, str], tuple[str, ...]]]:
    file = next((file for suffix, file in _METADATA.items() if own.endswith(suffix)), "")
    text = (files.read(f"{path}/{own}/{file}", _MOST) if file else None) or b""
    if not text and own.endswith(".egg-info"):
        text = files.read(f"{path}/{own}", _MOST) or b""
    headers = HeaderParser().parsestr(text.decode("utf-8", "replace"))
    package, version = str(headers["Name"] or ""), str(headers["Version"] or "")
    if _SHORT.fullmatch(package) and _SHORT.fullmatch(version):
        licences = _python_licences(
            str(headers["License-Expression"] or ""),
            str(headers["License"] or ""),
            [str(each) for each in headers.get_all("Classifier") or ()],
        )
        yield (plain_name(package), version), licences


def _python_licences(expression: str, text: str, classifiers: list[str]) -> tuple[str, ...]:
    """Return the licences of a package; a whole licence in ``text`` names none."""
    for each in (expression.strip(), text.strip()):
        if _SHORT.fullmatch(each) and each.lower() not in _UNSAID:
            return (each,)
    last = (each.rpartition(" :: ")[2] for each in classifiers if each.startswith("License ::"))
    return tuple(sorted({each for each in last if _SHORT.fullmatch(each)} - {"OSI Approved"}))
