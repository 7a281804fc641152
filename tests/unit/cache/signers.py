"""Make keys of signers, and lists of signers whom a user trusts."""

from pathlib import Path

from ...programs import run


def new_key(tmp_path: Path, name: str) -> str:
    path = tmp_path / name
    done = run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", path])
    assert done.returncode == 0, done.stderr
    return str(path)


def allowed(tmp_path: Path, key: str, options: str = "") -> Path:
    path = tmp_path / "signers"
    path.write_text(f"alice@example.org {options} {Path(f'{key}.pub').read_text()}")
    path.chmod(0o600)
    return path
