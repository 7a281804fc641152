"""The provenance of an image is a valid statement, and names all that the image is made of."""

import json
from collections.abc import Callable

import pytest

from lumicontainer.core.lock import LockEntry, apply_lock, lock_with, text_of
from lumicontainer.core.plan.plan import planned
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.image import records
from lumicontainer.image.digests import Part
from lumicontainer.trust.dependencies import dependencies_of, hashes, sources
from lumicontainer.trust.statement import (
    SCHEMA,
    PackedLayer,
    Provenance,
    build_command,
    build_provenance,
    content,
)

from ...in_toto import require_valid

COMMIT, HASH = "ab" * 20, "cd" * 32
GIT, URL = "https://github.com/example/tool", "https://example.org/x.tar.gz"
SOURCES = f"""\
summary: says hello
packages: {{apt: [curl, make=4.3-4.1]}}
version: "1"
sources:
  - {{git: {GIT}, commit: {COMMIT}, folder: tool}}
  - {{url: {URL}, file: x.tar.gz, sha256: {HASH}}}
  - {{sdist: numpy, sha256: {HASH}}}
"""
FILES = {
    "layers/greet/layer.yaml": SOURCES,
    "layers/greet/install.sh": "pip install $sources/*",
}
LAYERS = [PackedLayer("base", "12" * 32, HASH, 4096), PackedLayer("greet", "34" * 32, HASH, 99)]
PARTS = [Part("squashfs", 4096, 10, HASH)]


@pytest.fixture
def image(resolved: Callable[..., Resolved]) -> Resolved:
    return resolved(FILES)


def provenance_of(resolved: Resolved) -> Provenance:
    return build_provenance(planned(resolved), LAYERS, PARTS)


def uris(resolved: Resolved) -> dict[str, dict[str, str]]:
    return {row["uri"]: row.get("digest", {}) for row in dependencies_of(resolved)}


def test_the_statement_is_valid_and_read_again(image: Resolved) -> None:
    text = content(provenance_of(image))
    require_valid(json.loads(text))
    assert Provenance(records.parse(text, SCHEMA)).layers == LAYERS
    assert content(provenance_of(image)) == text


def test_each_input_has_an_address_and_the_digest_of_its_pin(image: Resolved) -> None:
    assert uris(image) == {
        "urn:lumicontainer:debootstrap:bookworm": {},
        "pkg:deb/debian/curl": {},
        "pkg:deb/debian/make@4.3-4.1": {},
        f"git+{GIT}": {"gitCommit": COMMIT},
        URL: {"sha256": HASH},
        "pkg:pypi/numpy@1": {"sha256": HASH},
    }


def test_a_lock_names_all_of_its_pins(image: Resolved) -> None:
    pin = f"six==1.17.0 --hash=sha256:{HASH}"
    entries = {
        "tiny": [LockEntry("debootstrap", "bookworm", pin=HASH)],
        "greet": [
            LockEntry("apt", "curl", pin=f"curl=7.88.1-10 --hash=sha256:{HASH}"),
            LockEntry("git", GIT, "tool", pin=COMMIT),
            LockEntry("url", URL, "x.tar.gz", pin=HASH),
            LockEntry("sdist", "numpy==1", pin=HASH),
            LockEntry("python", "six", pin=pin, dependency=True),
        ],
    }
    lock = lock_with(image, entries)
    locked = apply_lock(image, lock)._replace(lock=text_of(lock))
    assert uris(locked) == {
        "urn:lumicontainer:debootstrap:bookworm": {"sha256": HASH},
        "pkg:deb/debian/curl@7.88.1-10": {"sha256": HASH},
        f"git+{GIT}": {"gitCommit": COMMIT},
        URL: {"sha256": HASH},
        "pkg:pypi/numpy@1": {"sha256": HASH},
        "pkg:pypi/six@1.17.0": {"sha256": HASH},
    }
    assert hashes(dependencies_of(locked))["pkg:pypi/six@1.17.0"] == HASH
    provenance = provenance_of(locked)
    assert provenance.parameters["lock"] == text_of(lock)
    assert provenance.command.endswith(" --locked")


def test_git_repositories_and_files_are_components_of_the_bill(image: Resolved) -> None:
    components = {each.name: (each.purl, each.sha256) for each in sources(dependencies_of(image))}
    query = f"checksum=sha256:{HASH}&download_url=https://example.org/x.tar.gz"
    assert components == {
        "tool": (f"pkg:github/example/tool@{COMMIT}", ""),
        "x.tar.gz": (f"pkg:generic/x.tar.gz?{query}", HASH),
    }


def test_the_command_repeats_the_options_of_the_user(resolved: Callable[..., Resolved]) -> None:
    changed = resolved(None, "greet.greeting=good day", "greet.times=3")
    provenance = provenance_of(changed)
    assert provenance.parameters["values"] == ["greet.greeting=good day", "greet.times=3"]
    assert build_command(provenance.parameters) == (
        "lumicontainer build hello --platform workstation "
        "--set 'greet.greeting=good day' --set greet.times=3"
    )


STRANGERS = [
    *(("recipe", name) for name in ("/tmp/own.yaml", "own.yaml", "own.yml", "../own", "--help")),
    *((key, name) for key in ("platform", "profile") for name in ("/tmp/own", "../own")),
]


@pytest.mark.parametrize(("key", "name"), STRANGERS)
def test_an_image_names_no_file_of_a_stranger(image: Resolved, key: str, name: str) -> None:
    data = json.loads(content(provenance_of(image)))
    parameters = data["predicate"]["buildDefinition"]["externalParameters"]
    parameters[key] = name
    with pytest.raises(records.RecordError, match=key):
        records.parse(json.dumps(data).encode(), SCHEMA)
    parameters[key] = "own-1.0"
    records.parse(json.dumps(data).encode(), SCHEMA)
