"""The signature of an image."""

from pathlib import Path

from lumicontainer.errors import ExaminedError
from lumicontainer.trust import signatures
from lumicontainer.trust.signatures import SignatureVerdict, judge_signature, read_signer


def verify_signature(image: Path, signed_by: str = "") -> SignatureVerdict:
    """Return whether an image is signed by a key, and whole; the engine of this host is asked.

    ``signed_by`` is the file of a public key in PEM, or the fingerprint of a PGP key; by default
    any key of the engine's keyring counts. Raises ``HostError`` without an engine.
    """
    return judge_signature(image, read_signer(signed_by))


def require_signature(image: Path, signed_by: str = "") -> None:
    """Raise ``ExaminedError`` unless ``verify_signature`` says that a key has signed an image."""
    verdict = verify_signature(image, signed_by)
    if not verdict.is_valid:
        raise ExaminedError(signatures.problem(image, verdict))
