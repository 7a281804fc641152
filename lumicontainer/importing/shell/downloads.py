"""Read the commands that download something: a layer, or a source to pin, takes its place."""

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from lumicontainer.importing.draft import NOT_CARRIED, NOT_NEEDED, FileLine
from lumicontainer.importing.lists import requirements
from lumicontainer.importing.shell.losses import Losses
from lumicontainer.importing.shell.options import read_options
from lumicontainer.importing.shell.products import ARCHIVE, products, saved_as, value_of
from lumicontainer.importing.shell.words import Command

_REPOSITORY = re.compile(r"(?:ssh|git)://[^\s'\"|;)&>]+|(?<![\w.-])[\w.-]+@[\w.-]+:[^\s'\"|;)&>]+")
"""A repository in a form of git's own."""
_URL = re.compile(r"(?:https?|ftp)://[^\s'\"|;)&>]+")
_INSTALLERS = re.compile(
    r"(?i)(mini|mamba|ana)(conda|forge)|micro\.?mamba|get-pip\.py|astral\.sh/uv"
)
_GITHUB = re.compile(
    r"https://github\.com/[^/]+/([^/]+)/archive/(?:refs/(?:tags|heads)/)?v?([\w.+-]+?)"
    r"\.(?:tar\.\w+|tgz|zip)"
)
"""An archive that holds a folder by the name of the repository and the revision."""
_CLONE = re.compile(r"\bgit\s+(?:-\S+\s+(?:\w[^\s=]*+=\S*+\s+)?)*clone\b(.*)", re.DOTALL)


def read_download(
    line: FileLine, plain: str, command: Command | None, losses: Losses, folder: str
) -> bool:
    """Add a download, or note what is missing without it; False for other commands."""
    clone = _CLONE.search(plain.replace("\\\n", " "))
    urls = _URL.findall(plain) or (_REPOSITORY.findall(clone[1]) if clone else [])
    if not urls:
        return False
    if clone:
        _read_clone(line, clone[1], urls[0], losses, folder)
    elif not re.search(r"\b(curl|wget|aria2c)\b", plain):
        return False
    elif _INSTALLERS.search(urls[0]):
        saved = _saved(plain, command) or PurePosixPath(urls[0]).name
        losses.lose(saved, folder, NOT_NEEDED)
        line.replace("python", "the layer has Python and pip")
    else:
        for number, url in enumerate(dict.fromkeys(urls)):
            saved = "" if number else _saved(plain, command)
            outcome, layer = _read_file(
                line.part(url) if number else line, url, saved, losses, folder
            )
            held = _GITHUB.sub(r"\1-\2.tar", url)
            inner = ARCHIVE.sub("", held) if held != url else ""
            # A pipe unpacks it at once.
            unpacked = products(plain.replace(url, held), None) if "|" in plain else ()
            for path in filter(None, (inner, *unpacked)):
                losses.lose(path, folder, outcome, layer)
    return True


def _read_clone(line: FileLine, rest: str, url: str, losses: Losses, folder: str) -> None:
    source, path = _clone(rest, url)
    outcome, layer = _decide(line, source, PurePosixPath(source["git"]).name.removesuffix(".git"))
    losses.lose(path or PurePosixPath(source["folder"]).name, folder, outcome, layer)


def _read_file(
    line: FileLine, url: str, saved: str, losses: Losses, folder: str
) -> tuple[str, str]:
    source = requirements.url_source(url, PurePosixPath(saved).name)
    name = PurePosixPath(url.partition("?")[0]).name
    outcome, layer = _decide(line, source, ARCHIVE.sub("", name))
    losses.lose(saved or name, folder, outcome, layer)
    return outcome, layer


def _decide(line: FileLine, source: Mapping[str, str], name: str) -> tuple[str, str]:
    """Add what takes the place of a source; return what becomes of its users, and the layer."""
    if line.decided("sources", name.lower()) or (
        "git" in source and line.decided("python", requirements.package_of(name))
    ):
        row = line.draft.lines[-1]
        return (NOT_CARRIED if row.outcome == NOT_CARRIED else NOT_NEEDED), row.layer
    line.refuse_source(source)
    return NOT_CARRIED, ""


def _clone(rest: str, url: str) -> tuple[dict[str, str], str]:
    """Return the source of a clone, and the path that the command names for it."""
    address = re.sub(r"^(?!\w+://)[\w.-]+@([\w.-]+):/?", r"https://\1/", url)
    words = (word.strip("'\"") for word in re.split(r"[|;&>]", rest)[0].split())
    operands = read_options("git clone", [*words]).operands
    path = operands[1] if operands[1:] and re.fullmatch(r"[\w./-]+", operands[1]) else ""
    return requirements.git_source(address, PurePosixPath(path).name), path


def _saved(text: str, command: Command | None) -> str:
    """Return the path that a download is written to; empty if its URL names it."""
    if command is None:
        program = "wget" if re.search(r"\bwget\b", text) else "curl"
        bare = re.split(r"[|;]", text[text.find(program) :])[0]
        words = [program, *(word.strip("'\"") for word in bare.split()[1:])]
        written = re.search(r"[^>&]>\s*[\"']?([\w./+-]+)", bare)
        named = saved_as(words) or (written[1] if written else "")
    else:
        words = [*command.words]
        named = saved_as(words) or "".join(command.outputs[:1])
    name = PurePosixPath(named).name
    if named and re.fullmatch(r"[A-Za-z0-9][\w.+-]*", name):
        return named
    into = value_of(words, "-P", "--directory-prefix") if words[:1] == ["wget"] else ""
    url = _URL.search(text)
    return f"{into}/{PurePosixPath(url[0].partition('?')[0]).name}" if into and url else ""
