"""A signature of the engine is judged: missing, of another key, or of an image that has changed."""

import json
import os
import random
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from lumicontainer.errors import HostError, LumicontainerError
from lumicontainer.image import sif, sif_format, squashfs
from lumicontainer.image.assembly.assemble import Source
from lumicontainer.trust.signatures import (
    ALTERED,
    OTHER_KEY,
    UNSIGNED,
    VALID,
    Signer,
    judge_signature,
    read_signer,
)

from ..contracts.conftest import pack, tiny, write_image
from ..integration.conftest import ENGINE, check_output, lumicontainer

__all__ = ["tiny"]

FLIPS = 100
_HEADER_TIME = range(72, 80)
"""The time of the last change in the header: each ``sign`` sets it, so that nothing covers it."""


class Keys(NamedTuple):
    """Hold a folder with the PEM keys ``a`` and ``b``, and the fingerprint of a PGP key."""

    folder: Path
    fingerprint: str

    def public(self, name: str) -> Path:
        return self.folder / f"{name}.pub"

    def sign(self, image: Path, *key: object) -> Path:
        check_output(ENGINE, "sign", *key, image)
        return image

    def sign_by(self, name: str, image: Path) -> Path:
        return self.sign(image, "--key", self.folder / f"{name}.pem")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keys]:
    """Make keys, and a keyring of the engine that tests have to themselves."""
    folder = tmp_path_factory.mktemp("keys")
    with pytest.MonkeyPatch.context() as patch:
        for prefix in ("APPTAINER", "SINGULARITY"):
            patch.setenv(f"{prefix}_KEYSDIR", str(folder / "ring"))
        for name in ("a", "b"):
            private, public = folder / f"{name}.pem", folder / f"{name}.pub"
            check_output("openssl", "genpkey", "-algorithm", "RSA", "-out", private)
            check_output("openssl", "pkey", "-in", private, "-pubout", "-out", public)
        owner = ("--name", "A", "--email", "a@example.org", "--password", "", "--push=false")
        # It asks for a comment.
        subprocess.run([ENGINE, "key", "newpair", *owner], input="\n", text=True, check=True)
        (line,) = (
            row for row in check_output(ENGINE, "key", "list").splitlines() if "Fingerprint:" in row
        )
        yield Keys(folder, line.split()[-1])


@pytest.fixture
def image(tiny: Path, tmp_path: Path) -> Path:
    """Return an image that describes itself, as built images do."""
    path = tmp_path / "image.sif"
    path.touch()
    layer = pack(tiny, tmp_path / "layer.sqsh", "gzip")
    described = {sif.BILL: b"{}", sif.PROVENANCE: b"{}"}
    plan = sif.layout("Bootstrap: x\n", {"data": {}})
    squashfs.write_image([Source(layer)], path, plan, describe=lambda *_: described)
    return path


def state(image: Path, signer: object = "") -> str:
    return judge_signature(image, read_signer(str(signer))).state


def test_missing_other_and_valid_signatures_are_told_apart(image: Path, keys: Keys) -> None:
    assert state(image, keys.public("a")) == UNSIGNED
    keys.sign_by("a", image)
    assert state(image, keys.public("a")) == VALID
    assert state(image, keys.public("b")) == OTHER_KEY
    assert state(image, keys.fingerprint) == OTHER_KEY


def test_keys_of_the_keyring_are_named_by_their_fingerprint(image: Path, keys: Keys) -> None:
    keys.sign(image)
    number = keys.fingerprint
    for word in ("", number, f"0x{number.lower()}", number[-16:]):
        assert state(image, word) == VALID
    assert state(image, number[:-1] + ("0" if number[-1] != "0" else "1")) == OTHER_KEY
    assert state(image, keys.public("a")) == OTHER_KEY


def test_a_key_that_is_not_in_the_keyring_does_not_count(
    image: Path, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys.sign(image)
    for prefix in ("APPTAINER", "SINGULARITY"):
        monkeypatch.setenv(f"{prefix}_KEYSDIR", str(tmp_path / "other"))
    assert state(image) == OTHER_KEY


@pytest.mark.parametrize("by", ["pem", "pgp"])
def test_every_flipped_bit_of_a_signed_image_is_found(by: str, image: Path, keys: Keys) -> None:
    """Only what says nothing of the image is left out: see ``docs/trust.md``."""
    by_pem = by == "pem"
    signer = Signer(keys.public("a")) if by_pem else Signer(fingerprint=keys.fingerprint.lower())
    _ = keys.sign_by("a", image) if by_pem else keys.sign(image)
    assert judge_signature(image, signer).is_valid
    chance, content = random.Random(33), image.read_bytes()
    (row,) = (each for each in sif.read_objects(image) if each.kind == sif_format.SIGNATURE)
    size = sif_format.DESCRIPTOR_SIZE
    own = sif_format.DESCRIPTOR_OFFSET + (row.number - 1) * size
    unused = {*_HEADER_TIME, *range(own, own + size), *range(row.offset, row.end)}
    missed = []
    for at in chance.sample([each for each in range(len(content)) if each not in unused], FLIPS):
        changed = bytearray(content)
        changed[at] ^= 1 << at % 8
        image.write_bytes(changed)
        with suppress(LumicontainerError):  # A damaged header is refused.
            missed += [at] if judge_signature(image, signer).is_valid else []
    assert missed == []


def test_an_image_of_another_program_is_judged_by_its_engine_alone(
    tiny: Path, keys: Keys, tmp_path: Path
) -> None:
    image = write_image(tiny, tmp_path / "x.sif", "gzip")
    keys.sign_by("a", image)
    with image.open("r+b") as file:
        file.seek(sif.root(image).offset + 200)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))
    assert state(image, keys.public("a")) == ALTERED


def test_an_object_that_is_added_to_a_signed_image_is_found(
    image: Path, keys: Keys, tmp_path: Path
) -> None:
    keys.sign_by("a", image)
    layer = tmp_path / "layer.sqsh"
    kind = ("--datatype", "4", "--partfs", "1", "--parttype", "4", "--partarch", "2")
    check_output(ENGINE, "sif", "add", *kind, "--groupid", "2", image, layer)
    verdict = judge_signature(image, read_signer(str(keys.public("a"))))
    assert (verdict.state, "does not cover" in verdict.why) == (ALTERED, True)


def test_the_verbs_refuse_an_image_without_the_signature_and_do_not_start_it(
    image: Path, keys: Keys
) -> None:
    for words in (("--signed-by", keys.public("a")), ("--require-signed",)):
        done = lumicontainer("run", *words, image, "--", "sh", "-c", "echo started", code=1)
        assert (done.stdout, "the image is not signed" in done.stderr) == ("", True)
    report = lumicontainer("verify", image, "--signed-by", keys.public("a"), "--json", code=1)
    (check,) = json.loads(report.stdout)["checks"]
    assert (check["name"], check["state"]) == ("host/signature", "failed")
    keys.sign_by("a", image)
    done = lumicontainer(
        "run", "--signed-by", keys.public("a"), image, "--", "sh", "-c", "echo started", code=0
    )
    assert done.stdout == "started\n"
    done = lumicontainer("run", "--signed-by", keys.public("b"), image, "--", "true", code=1)
    assert "the image is signed by another key" in done.stderr


def test_an_extension_that_nobody_signed_is_refused(image: Path, keys: Keys) -> None:
    keys.sign_by("a", image)
    for words in (("--signed-by", keys.public("a")), ("--require-signed",)):
        done = lumicontainer("run", *words, "--with", "x.sqsh", image, "--", "true", code=2)
        assert "an extension has no signature" in done.stderr


def test_words_that_name_no_signer_are_refused(image: Path, keys: Keys) -> None:
    for word, says in (
        ("nobody", "signer 'nobody' not found"),
        (keys.folder / "a.pem", "got a private key"),
        (image, "expected a public key in PEM"),
    ):
        done = lumicontainer("run", "--signed-by", word, image, "--", "true", code=2)
        assert says in done.stderr


def test_a_host_without_an_engine_says_so(
    image: Path, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys.sign_by("a", image)
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(HostError, match="container engine not found"):
        judge_signature(image, read_signer(str(keys.public("a"))))


@pytest.fixture
def site(keys: Keys, tmp_path: Path) -> Iterator[Mapping[str, str]]:
    """Return the variables for an engine of a site that allows images of one signer only."""
    own = Path(shutil.which(ENGINE) or "").resolve().parents[1]
    assert (own / "etc/apptainer/ecl.toml").is_file(), f"{own} is not a folder of the engine alone"
    place = tmp_path / "site"
    shutil.copytree(own, place, symlinks=True)
    settings = place / "etc/apptainer"
    shutil.copy(keys.folder / "ring/pgp-public", settings / "global-pgp-public")
    (settings / "global-pgp-public").chmod(0o644)
    (settings / "ecl.toml").write_text(
        'activated = true\n[[execgroup]]\ntagname = "site"\nmode = "whitelist"\n'
        f'dirpath = ""\nkeyfp = ["{keys.fingerprint}"]\n'
    )
    yield {**os.environ, "PATH": f"{place / 'bin'}:{os.environ['PATH']}"}
    shutil.rmtree(place)


def test_a_site_allows_the_images_of_its_signer_only(
    site: Mapping[str, str], image: Path, keys: Keys, tmp_path: Path
) -> None:
    unsigned = Path(shutil.copy(image, tmp_path / "unsigned.sif"))
    other = keys.sign_by("b", Path(shutil.copy(image, tmp_path / "other.sif")))
    keys.sign(image)
    words = ("--", "sh", "-c", "echo started")
    assert lumicontainer("run", image, *words, env=site, code=0).stdout == "started\n"
    for each in (unsigned, other):
        done = lumicontainer("run", each, *words, env=site)
        assert (done.returncode != 0, done.stdout) == (True, "")
        assert "ECL" in done.stderr
