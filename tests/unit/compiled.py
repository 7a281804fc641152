"""Make real shared libraries with gcc, in folders that stand for the root of a system."""

import struct
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


def gcc(*words: object) -> None:
    subprocess.run(["gcc", *map(str, words)], check=True, capture_output=True)


def _script(versions: Mapping[str, Sequence[str]]) -> str:
    """Return a version script, see the linker's manual."""
    lines, before = [], ""
    for version, names in versions.items():
        symbols = "".join(f" {name};" for name in names)
        hidden = "" if before else " local: *;"
        lines.append(f"{version} {{ global:{symbols}{hidden} }}{before};\n")
        before = f" {version}"
    return "".join(lines)


def weaken(path: Path, version: str) -> None:
    """Let a library do without a version that it needs; GNU's linker has no option for that."""
    number = 0
    for letter in version.encode():
        number = (number << 4) + letter
        number = (number ^ (number & 0xF0000000) >> 24) & 0x0FFFFFFF
    record = struct.pack("<IH", number, 0)
    content = path.read_bytes()
    assert content.count(record) == 1
    path.write_bytes(content.replace(record, struct.pack("<IH", number, 2)))


@dataclass(frozen=True)
class Root:
    """Hold the folder that stands for the root of a system."""

    path: Path

    def place(self, name: str) -> Path:
        """Return the path of a file, whose folder it makes."""
        path = self.path / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def write(self, name: str, text: str) -> None:
        self.place(name).write_text(text)

    def link(self, name: str, target: str) -> None:
        self.place(name).symlink_to(target)

    def library(
        self,
        name: str,
        *,
        soname: str | None = None,
        defines: Sequence[str] | Mapping[str, Sequence[str]] = (),
        uses: Sequence[str] = (),
        weak: Sequence[str] = (),
        needs: Sequence[Path] = (),
        opens: str = "",
        flags: Sequence[str] = (),
    ) -> Path:
        """Compile a library and return its path; ``defines`` may be symbols by their version.

        It calls the symbols ``uses``, and ``weak`` if they exist. ``soname`` is its name
        unless another is given; an empty one leaves it without.
        """
        out = self.place(name)
        versions = defines if isinstance(defines, Mapping) else {}
        symbols = [each for row in versions.values() for each in row] if versions else defines
        lines = [f"int {each}(void) {{ return 1; }}" for each in symbols]
        lines += [f"extern int {each}(void);" for each in uses]
        lines += [f"extern int {each}(void) __attribute__((weak));" for each in weak]
        calls = [f"{each}()" for each in uses] + [f"({each} ? {each}() : 0)" for each in weak]
        if calls:
            lines += [f"int use_{out.name.split('.')[0]}(void) {{ return {' + '.join(calls)}; }}"]
        if opens:
            lines += [f'const char *opened(void) {{ return "{opens}"; }}']
        source = out.with_name(out.name + ".c")
        source.write_text("\n".join(lines) + "\n")
        named = out.name if soname is None else soname
        options = [*flags, *([f"-Wl,-soname,{named}"] if named else [])]
        if versions:
            script = out.with_name(out.name + ".map")
            script.write_text(_script(versions))
            options.append(f"-Wl,--version-script,{script}")
        shared = ("-shared", "-fPIC", "-nostdlib", "-Wl,--no-as-needed,--allow-shlib-undefined")
        gcc(*shared, "-o", out, source, *needs, *options)
        source.unlink()
        return out
