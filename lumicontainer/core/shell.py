"""Write shell text that carries values and files unchanged, also through a definition."""

import base64
import hashlib
import shlex
from collections.abc import Iterable, Mapping

from lumicontainer.core.apptainer_syntax import hazard
from lumicontainer.core.model.files import LayerFile, Value

_CONTROL = bytes(byte for byte in (*range(0x20), 0x7F) if byte not in b"\t\n")


def shell_value(value: Value) -> str:
    """Return how a value reads in the shell: booleans as 1 or 0, all else as it is written."""
    return str(int(value)) if isinstance(value, bool) else str(value)


def exports(values: Mapping[str, Value]) -> str:
    """Return one ``export`` line a value, quoted so that nothing in it is run."""
    return "".join(
        f"export {name}={shlex.quote(shell_value(value))}\n"
        for name, value in sorted(values.items())
    )


def write_files(folder: str, files: Iterable[LayerFile]) -> str:
    """Return shell text that writes ``files`` under ``folder`` and proves each by its sha256.

    Text goes in a heredoc where people can read it; what a definition or a heredoc would change
    (see ``hazards``) goes as base64. ``folder`` is a constant path without shell characters.
    """
    text, sums = "", ""
    folders: dict[str, None] = {}
    for each in files:
        path = f"{folder}/{each.name}"
        folders.setdefault(path.rpartition("/")[0])
        written, digest = _write_file(path, each)
        text += written
        sums += f"{digest}  {path}\n"
    if not sums:
        return ""
    made = " ".join(map(shlex.quote, folders))
    return f"mkdir -p {made}\n{text}sha256sum --check --quiet - <<'SHA256'\n{sums}SHA256\n"


def _write_file(path: str, file: LayerFile) -> tuple[str, str]:
    quoted = shlex.quote(path)
    body = _as_heredoc(file.content)
    if body is None:
        letters = base64.b64encode(file.content).decode()
        encoded = "\n".join(letters[at : at + 100] for at in range(0, len(letters), 100))
        text = f"base64 -d >{quoted} <<'BASE64'\n{encoded}\nBASE64\n"
    else:
        text = f"cat >{quoted} {body}"
    digest = hashlib.sha256(file.content).hexdigest()
    return f"{text}chmod {file.mode:o} {quoted}\n", digest


def _as_heredoc(content: bytes) -> str | None:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    held = len(content.translate(None, _CONTROL)) == len(content)
    if not (held and text.endswith("\n")) or hazard(text):
        return None
    word = "END_OF_FILE"
    while word in text:
        word += "_"
    return f"<<'{word}'\n{text}{word}\n"
