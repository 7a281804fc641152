"""A repository of apt's that a test makes and signs, in the place of one that is out of reach."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Package:
    """Say what a package is; ``files`` are texts by path, or the targets of links (``Path``)."""

    name: str
    files: Mapping[str, str | Path] = field(default_factory=dict)
    version: str = "1"
    depends: str = ""


@dataclass
class StandInArchive:
    """Hold repositories below ``root``, signed by keys of the test's own."""

    root: Path
    home: Path

    def gpg(self, *arguments: str | Path) -> str:
        command = ["gpg", "--homedir", self.home, "--batch", "--yes", "--quiet", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def make_key(self, name: str = "own") -> str:
        """Make a key and return its fingerprint."""
        self.gpg("--passphrase", "", "--quick-gen-key", f"{name}@localhost", "ed25519", "sign")
        listed = self.gpg("--list-keys", "--with-colons", f"{name}@localhost")
        return next(line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr"))

    def key(self, name: str = "own") -> str:
        """Return a key as text."""
        return self.gpg("--armor", "--export", f"{name}@localhost")

    def publish(
        self,
        folder: str,
        packages: Iterable[Package],
        *,
        suite: str,
        origin: str,
        signer: str = "own",
        until: str = "",
    ) -> None:
        """Publish packages below ``folder`` in place of what was published there.

        ``until`` says when the lists expire, such as Sat, 31 Jan 2026 00:00:00 UTC.
        """
        index = self.root / folder / f"dists/{suite}/main/binary-amd64/Packages"
        index.parent.mkdir(parents=True, exist_ok=True)
        index.write_text("".join(self._made(folder, each) for each in packages))
        head = f"Origin: {origin}\nCodename: {suite}\nComponents: main\nArchitectures: amd64\n"
        date = "Date: Thu, 01 Jan 2026 00:00:00 UTC\n"
        date += f"Valid-Until: {until}\n" if until else ""
        listed = f" {_digest(index)} {index.stat().st_size} main/binary-amd64/Packages\n"
        release = index.parents[2] / "Release"
        release.write_text(f"{head}{date}SHA256:\n{listed}")
        sign = ("--clearsign", "--local-user", f"{signer}@localhost")
        self.gpg(*sign, "--output", release.parent / "InRelease", release)

    def _made(self, folder: str, package: Package) -> str:
        """Make a package, and return what an index says of it."""
        tree = self.home / "tree"
        control = (
            f"Package: {package.name}\nVersion: {package.version}\nArchitecture: amd64\n"
            f"Maintainer: test <test@localhost>\nDescription: a stand-in\n"
        )
        control += f"Depends: {package.depends}\n" if package.depends else ""
        for path, content in {"DEBIAN/control": control, **package.files}.items():
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, Path):
                (tree / path).symlink_to(content)
            else:
                (tree / path).write_text(content)
                (tree / path).chmod(0o755 if "/bin/" in path else 0o644)
        made = self.root / folder / f"{package.name}_{package.version}.deb"
        command = ["dpkg-deb", "--root-owner-group", "--build", tree, made]
        # The same package has the same bytes whenever it is made.
        env = {**os.environ, "SOURCE_DATE_EPOCH": "0"}
        subprocess.run(command, check=True, capture_output=True, env=env)
        shutil.rmtree(tree)
        fields = f"Filename: {made.name}\nSize: {made.stat().st_size}\nSHA256: {_digest(made)}\n"
        return f"{control}{fields}\n"


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@contextmanager
def stand_in_archive(root: Path) -> Iterator[StandInArchive]:
    """Give an archive below ``root`` with a key, and end the agents of its keys afterwards."""
    # The agent's socket has a short path only.
    home = Path(tempfile.mkdtemp(prefix="gpg-"))
    try:
        yield StandInArchive(root, home)
    finally:
        command = ["gpgconf", "--homedir", home, "--kill", "gpg-agent"]
        subprocess.run(command, check=True, capture_output=True)
        shutil.rmtree(home, ignore_errors=True)  # its agent removes files there too
