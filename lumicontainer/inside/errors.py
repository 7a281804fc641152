"""What is wrong, told in one form: what, where, why, how to mend it."""

from __future__ import annotations


class LaunchError(Exception):
    """Carry what keeps the program from starting to the end, where it becomes the exit code."""

    def __init__(
        self, what: str, *, where: str = "", why: str = "", mend: str = "", code: int = 2
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.why = why
        self.mend = mend
        self.code = code

    def __str__(self) -> str:
        labels = (("where", self.where), ("why", self.why), ("mend", self.mend))
        lines = [f"{label:>7}: {text}" for label, text in labels if text]
        return "\n".join([f"error: {self.what}", *lines])
