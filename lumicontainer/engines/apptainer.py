"""Apptainer, and SingularityCE where its options are the same."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lumicontainer.machine import needs_user_namespace


class Apptainer:
    """Return the commands of Apptainer (read with 1.4.5)."""

    def __init__(self, program: Path) -> None:
        self.program = str(program)

    def bootstrap(self, definition: Path, tree: Path) -> list[str]:
        """Return the command that makes the base of ``definition`` in the folder ``tree``."""
        return [self.program, "build", "--fakeroot", "--sandbox", str(tree), str(definition)]

    def step(
        self, tree: Path, command: Sequence[str], *, temporary: Path, folders: Sequence[Path]
    ) -> list[str]:
        """Return the command that runs ``command`` as root in ``tree``, changing it.

        ``temporary`` becomes /tmp; each of ``folders`` is seen at its own path, read-only.
        """
        # --contain alone would put a tmpfs of 64 MiB on /tmp and /var/tmp; --no-umask because a
        # umask of 0007, LUMI's default, would leave files that nobody else can read; --pid because
        # otherwise what a step started outlives an interrupted build.
        options = ["--fakeroot", "--writable", "--no-home", "--contain", "--cleanenv"]
        options += ["--no-umask", "--pid", "--pwd", "/"]
        for inside in ("/tmp", "/var/tmp"):
            options += ["--bind", f"{temporary}:{inside}"]
        for folder in folders:
            options += ["--bind", f"{folder}:{folder}:ro"]
        return [self.program, "--silent", "exec", *options, str(tree), *command]

    def execute(self, image: Path, command: Sequence[str], *, binds: Sequence[str]) -> list[str]:
        """Return the command that runs ``command`` in an image as the present user."""
        options = ["--userns"] if needs_user_namespace() else []
        for bind in binds:
            options += ["--bind", bind]
        return [self.program, "--silent", "exec", *options, str(image), *command]
