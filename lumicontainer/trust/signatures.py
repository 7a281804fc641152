"""Ask the engine whether an image is signed, by whom, and whether it has changed since.

Signatures come from ``apptainer sign`` and ``singularity sign``, by PGP or PEM keys. An engine
does not read the bytes between objects, so that the image's own record of digests is checked too.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from lumicontainer.engines import find_engine
from lumicontainer.errors import InputError, Problem
from lumicontainer.image import digests, integrity, sif, sif_format
from lumicontainer.image.digests import IntegrityResult
from lumicontainer.image.sif_format import Descriptor
from lumicontainer.system import budget, process
from lumicontainer.system.files.regular import open_regular

VALID, UNSIGNED, OTHER_KEY, ALTERED, UNKNOWN = (
    *("signed", "not signed", "signed by another key", "altered since it was signed"),
    "not verified",
)
_PUBLIC, _PRIVATE = b"PUBLIC KEY-----", b"PRIVATE KEY-----"
_FINGERPRINT = re.compile(r"(?:0x)?((?:[0-9A-Fa-f]{4} ?){4,10})")
_MOST = 64 << 10
_WHY = re.compile(r"(?m)^(?:FATAL|ERROR):\s*(?:Failed to verify container: )?(.*)$")
_SAYS = {
    ALTERED: re.compile("integrity compromised|invalid signature|does not match|malformed"),
    OTHER_KEY: re.compile("unknown entity|match threshold|key material not provided"),
    UNSIGNED: re.compile("signature not found"),
}
"""The engine's words for each state; tested with Apptainer 1.4.5 and SingularityCE 4.1.1."""


class Signer(NamedTuple):
    """Say whose signature counts: a file with a public key, a fingerprint, or any trusted key."""

    file: Path | None = None
    fingerprint: str = ""
    """In small letters; the last digits are enough. Empty for any key of the engine's keyring."""


class SignatureVerdict(NamedTuple):
    """Hold what is known of an image's signature."""

    state: str
    why: str = ""
    fingerprints: tuple[str, ...] = ()
    """Of the PGP keys that signed it."""

    @property
    def is_valid(self) -> bool:
        """Return whether the signature is valid, and of a key that counts."""
        return self.state == VALID


def read_signer(word: str) -> Signer:
    """Return the signer that a word names, empty for any; raise ``InputError`` for another word."""
    if not word:
        return Signer()
    path = Path(word)
    if path.is_file():
        _require_public(path)
        return Signer(path.absolute())
    if match := _FINGERPRINT.fullmatch(word):
        return Signer(fingerprint=match[1].replace(" ", "").lower())
    why = "it is neither a file nor the fingerprint of a PGP key, of 16 to 40 digits"
    hint = "apptainer key list prints the fingerprints of your keyring"
    raise InputError(Problem(f"signer '{word}' not found", why=why, hint=hint))


def _require_public(path: Path) -> None:
    with open_regular(path) as file:
        head = file.read(_MOST)
    if _PUBLIC in head and _PRIVATE not in head and b"PGP" not in head:
        return
    what = "expected a public key in PEM"
    if _PRIVATE in head:
        what += ", got a private key"
    hint = "openssl pkey -in KEY -pubout writes it; import a PGP key with apptainer key import"
    raise InputError(Problem(what, str(path), hint=hint))


def judge_signature(
    image: Path, signer: Signer, proven: IntegrityResult | None = None
) -> SignatureVerdict:
    """Return whether a signer signed an image as it is; ``proven`` is the check of its bytes.

    Raises ``HostError`` if this host has no engine, and ``InputError`` for another file.
    """
    rows = sif.read_objects(image)
    signatures = [row for row in rows if row.kind == sif_format.SIGNATURE]
    if not signatures:
        return SignatureVerdict(UNSIGNED)
    engine = find_engine()
    result = proven or integrity.check_image(image)
    if result.state == digests.CHANGED:
        return SignatureVerdict(ALTERED, "\n".join(result.problems))
    if added := [*_not_covered(rows, signatures)]:
        return SignatureVerdict(ALTERED, f"the signature does not cover {', '.join(added)}")
    done = process.run_to_end(engine.verify(image, signer.file), limits=budget.FILES)
    if done.returncode:
        return _refused(f"{done.stdout}\n{done.stderr}")
    several = len({row.group for row in rows if row.kind != sif_format.SIGNATURE}) > 1
    return _of_signers(done.stdout, signer, several=several)


def _not_covered(rows: Iterable[Descriptor], signatures: Sequence[Descriptor]) -> Iterator[str]:
    """Yield the objects that belong to no signed group."""
    groups = {each.link for each in signatures}
    for row in rows:
        if row.kind != sif_format.SIGNATURE and row.group not in groups:
            yield f"object {row.number} ({sif_format.KINDS.get(row.kind, hex(row.kind))})"


def _refused(text: str) -> SignatureVerdict:
    said = _WHY.findall(text)
    why = said[-1] if said else text.strip()[-200:]
    state = next((state for state, words in _SAYS.items() if words.search(why)), UNKNOWN)
    return SignatureVerdict(state, why)


def _of_signers(text: str, signer: Signer, *, several: bool) -> SignatureVerdict:
    """Return the verdict on the engine's JSON, which has a row for each object and signature.

    A signature covers its whole group. It is not said which group a row is of, so that all rows
    must be the signer's if there are ``several``.
    """
    try:
        rows = [each["Signer"] for each in json.loads(text)["SignerKeys"] or ()]
        keys = [str(row["Fingerprint"]).lower() for row in rows if row["DataCheck"]]
    except (ValueError, KeyError, TypeError):
        return SignatureVerdict(UNKNOWN, "the engine printed no list of signers")
    signers = tuple(sorted({*filter(None, keys)}))
    matches = [each.endswith(signer.fingerprint) for each in keys]
    if matches and (all(matches) if several else any(matches)):
        return SignatureVerdict(VALID, fingerprints=signers)
    return SignatureVerdict(
        OTHER_KEY, f"its keys are {', '.join(signers) or 'not of PGP'}", signers
    )


def problem(image: Path, verdict: SignatureVerdict) -> Problem:
    """Return the message for an image whose signature does not count."""
    hints = {
        UNSIGNED: "ask who built it to sign it: apptainer sign IMAGE",
        OTHER_KEY: "name its key with --signed-by, or apptainer key import KEY",
        ALTERED: "do not run it; copy it again from its source",
    }
    what = f"the image is {verdict.state}"
    if verdict.state == UNKNOWN:
        what = "cannot verify the signature of the image"
    hint = hints.get(verdict.state, "apptainer verify --local IMAGE")
    return Problem(what, str(image), verdict.why, hint)
