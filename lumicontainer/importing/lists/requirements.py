"""Read requirements of Python packages: single ones, and the lines of ``requirements.txt``."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import PurePosixPath

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from lumicontainer.core.model.requirements import marker_values, requirement, requirement_lines
from lumicontainer.core.yaml.urls import without_secrets
from lumicontainer.errors import InputError
from lumicontainer.importing.draft import (
    CARRIED,
    NOT_NEEDED,
    Draft,
    FileLine,
    fault,
    hide_passwords,
)
from lumicontainer.importing.replacements import replacement_for
from lumicontainer.importing.shell.options import knows_option
from lumicontainer.packages.indexes import option_of_setting
from lumicontainer.packages.lines import EDITABLE, FILES, HASH, Option, read_line
from lumicontainer.system.files.recipe_folder import read_bytes

_FILE = re.compile(
    r"(?i)^(?:file:|(?!ruamel\.))[^\s@:=<>!~;]*\.(txt|in|toml|lock|whl|cfg|ya?ml)(\[[^]]*])?$"
)
"""A word that names a file, though some are names of packages by their letters."""
_VARIABLE = re.compile(r"\$\{\w+\}")
_SETTING = re.compile(r"(?:(?:PIP|UV)_|(?:global|site|install|wheel|download)\.)([\w-]+)")
_SET = re.compile(r"(?<![\w$-])(?:(?:PIP|UV)_\w+(?==)|(?:global|site|install)\.[\w-]+(?=\s))")
_CONFIG_FILE = "config_file"
_COMMAND = re.compile(r"(?:sudo|pip[\d.]*|python[\d.]*|uv|conda|mamba|apt|apt-get) ")
_LIMITS = ("constraint", "build_constraint", "override")
_COMPILES = ("--no-binary", "--no-binary-package")
_PROJECT = "it installs a project with its dependencies; name the dependencies, and bind your code"


def read_requirements(draft: Draft, name: str, seen: Sequence[str] = ()) -> None:
    """Add the lines of a file of requirements in the draft's folder, and of those that it names.

    Raises ``InputError`` if the file cannot be read.
    """
    for line in file_lines(draft, name):
        add_line(line, (*seen, name))


def file_lines(draft: Draft, name: str) -> list[FileLine]:
    """Return the lines of a file as pip reads them, and hide the passwords of their URLs."""
    rows = [*requirement_lines(read_bytes(draft.folder, name))]
    hide_passwords(name, [each.text for each in rows])
    return [FileLine(draft, name, each.line, each.text) for each in rows]


def add_line(line: FileLine, seen: Sequence[str] = ()) -> None:
    """Add a line as pip reads it; ``seen`` are the files that led to it."""
    read = read_line(line.text)
    if read.requirement:
        hashed = any(each.name == HASH for each in read.options)
        add_requirement(line.part(read.requirement), read.requirement, hashed=hashed)
        return
    for option in read.options:
        _add_option_of_line(line, option, seen)


def _add_option_of_line(line: FileLine, option: Option, seen: Sequence[str]) -> None:
    name, value = option
    line = line.part(f"{name} {value}".strip())
    if name in FILES:
        named = inner_name(str(PurePosixPath(line.file).parent / value))
        if not named:
            line.refuse("the file is outside the build context")
            return
        read_named(line, named, partial(read_requirements, seen=seen), seen)
    elif name in EDITABLE:
        add_editable(line, value)
    elif knows_option("pip", name):
        rows = line.draft.lines
        before = len(rows)
        add_option(line, name, value)
        if len(rows) == before:
            line.note(NOT_NEEDED, "pip decides it in the step")
    else:
        line.refuse(f"the option '{name}' of pip is not known")


def inner_name(path: str) -> str:
    """Return a relative path without ``.`` and ``..``; empty if none in the folder has it."""
    parts: list[str] = []
    for part in PurePosixPath(path).parts:
        if part == ".." and parts:
            parts.pop()
        elif part in ("..", "/") or "\0" in part:
            return ""
        else:
            parts.append(part)
    return "/".join(parts)


def read_named(
    line: FileLine, name: str, read: Callable[[Draft, str], None], seen: Sequence[str] = ()
) -> None:
    """Add the lines of a file that a line names; refuse the line if it cannot be read."""
    if "://" in line.text:
        line.refuse("it downloads what nothing pins")
        return
    if not name:
        line.refuse("no line copies it into the image")
        return
    if name in seen or line.draft.read.get(name) == "":
        line.note(NOT_NEEDED, "the file was read already")
        return
    rows = line.draft.lines
    before = len(rows)
    if name not in line.draft.read:
        line.draft.read[name] = _read_file(line.draft, name, read)
    if why := line.draft.read[name]:
        line.refuse(why)
    else:
        line.note(CARRIED, f"the lines of {name} are below")
        rows.insert(before, rows.pop())


def _read_file(draft: Draft, name: str, read: Callable[[Draft, str], None]) -> str:
    """Add the lines of a file; return why it cannot be read."""
    try:
        read(draft, name)
    except InputError as error:
        problem = error.problems[0]
        return f"{problem.what}: {problem.where} {problem.why}".strip()
    return ""


def index_option(setting: str, value: str) -> Option | None:
    """Return the option that a variable or a key of pip's configuration stands for.

    None if it chooses no index and limits no versions.
    """
    match = _SETTING.fullmatch(setting)
    if match and match[1].lower() in _LIMITS and value not in ("", "/dev/null"):
        return Option("--constraint", value)
    if match and match[1].lower() == _CONFIG_FILE and value not in ("", "/dev/null"):
        return Option("--config-file", value)
    return option_of_setting(match[1], value) if match else None


def sets_index(text: str) -> bool:
    """Return whether the text of a shell sets a variable or a key that chooses an index."""
    return any(index_option(name, "?") for name in _SET.findall(text))


def add_option(line: FileLine, option: str, value: str) -> None:
    """Add what becomes of an option of pip that changes what is installed."""
    words = (without_secrets(word) if "://" in word else word for word in value.split())
    line = line.part(" ".join((option, *words)))
    if "download.pytorch.org" in value:
        line.note(NOT_NEEDED, "the layer pytorch has its own index")
    elif not (option in _COMPILES and _has_layers(line, value)):
        line.decided("pip_options", option)


def _has_layers(line: FileLine, names: str) -> bool:
    """Add that layers compile packages; return False if one of them has no layer."""
    rows = [
        replacement_for("python", canonicalize_name(each), line.draft.goal.accelerator)
        for each in names.split(",")
    ]
    has_layers = all("layer" in row for row in rows)
    if has_layers:
        line.replace(rows[0]["layer"])
    return has_layers


def add_editable(line: FileLine, text: str) -> None:
    """Add what ``--editable`` names: a repository, or a folder, which does not name a package."""
    if "://" in text:
        add_requirement(line, text)
    else:
        line.refuse(_PROJECT)


def add_requirement(line: FileLine, text: str, *, hashed: bool = False) -> None:
    """Add a requirement as pip reads it: a name with versions, a URL or a path."""
    bare = text.strip()
    if _FILE.search(bare):
        line.refuse("it is a file, not the name of a package")
        return
    if source := _source(bare):
        # A layer takes its place, or it is a source to pin.
        name = source.get("folder") or source.get("file", "").split("-")[0]
        named = bare.partition(" @ ")[0] if " @ " in bare else name
        if not line.decided("python", package_of(named)):
            line.refuse_source(source)
        return
    if _VARIABLE.search(bare):
        line.refuse("it has a variable without a known value")
        return
    try:
        read = Requirement(bare)
    except InvalidRequirement:
        if _COMMAND.match(bare):
            line.refuse("it is a command; a list of packages has their names alone")
            return
        local = bare.startswith((".", "/")) or "/" in bare
        line.refuse(_PROJECT if local else fault(requirement, bare))
        return
    _add_named(line, read, hashed=hashed)


def _add_named(line: FileLine, read: Requirement, *, hashed: bool) -> None:
    python = line.draft.goal.python
    try:
        meant = not read.marker or read.marker.evaluate(marker_values(python))
    except (UndefinedComparison, UndefinedEnvironmentName) as error:
        line.refuse(f"its condition has no meaning: {error}")
        return
    if not meant:
        line.note(NOT_NEEDED, f"not for Python {python} on Linux")
        return
    name = canonicalize_name(read.name)
    row = replacement_for("python_versions", name, line.draft.goal.accelerator)
    if row and not read.specifier.contains(row["version"], prereleases=True):
        line.refuse(row["refuse"])
        return
    remark = f"{read.specifier} was asked for" if read.specifier else ""
    if line.decided("python", name, remark):
        return
    read.marker = None
    _decide_extras(line, read)
    plain = str(read)
    cuda = [extra for extra in read.extras if re.search(r"cuda|cu1\d", extra)]
    if why := f"its extra {cuda[0]} is for NVIDIA's GPUs" if cuda else fault(requirement, plain):
        line.refuse(why)
        return
    line.draft.python.setdefault(plain)
    line.note(CARRIED, "its hashes are left to lumicontainer lock" if hashed else "")


def _decide_extras(line: FileLine, read: Requirement) -> None:
    """Add what becomes of extras that bring a package of a layer, or one that is refused."""
    for extra in sorted(read.extras):
        if row := replacement_for("python", canonicalize_name(extra), line.draft.goal.accelerator):
            line.part(f"{extra} of {read.name}[{extra}]").decided("python", extra)
            # With the layer below, pip finds the package, and adds what else the extra brings.
            read.extras -= {extra} if "layer" not in row else set()


def package_of(repository: str) -> str:
    """Return the name of the Python package that a repository holds."""
    name = str(canonicalize_name(re.split(r"[^\w.-]", repository)[0]))
    return "flash-attn" if name == "flash-attention" else name


def _source(text: str) -> dict[str, str]:
    """Return the source that a requirement's URL names, or nothing."""
    match = re.search(r"(?:git\+)?(?:https?|ssh|git)://\S+", text)
    if not match:
        return {}
    url = match[0]
    return git_source(url.removeprefix("git+")) if url.startswith("git+") else url_source(url)


FILL_IN = "FILL-IN"


def git_source(url: str, folder: str = "") -> dict[str, str]:
    """Return a git source to fill in; ``url`` may end in @COMMIT and #egg=NAME as pip's do."""
    path, _, revision = url.partition("#")[0].partition("://")[2].rpartition("@")
    # What stands before the host is a user's name or a secret.
    if "/" not in path:
        path, revision = revision, ""
    path = path.rpartition("@")[2]
    commit = revision if re.fullmatch(r"[0-9a-f]{40}", revision) else FILL_IN
    name = folder or PurePosixPath(path).name.removesuffix(".git")
    return {"git": f"https://{path}", "commit": commit, "folder": name}


def url_source(url: str, file: str = "") -> dict[str, str]:
    """Return a source of a file to fill in."""
    address, _, fragment = url.partition("#")
    name = file or PurePosixPath(address.partition("?")[0]).name or "download"
    sha256 = fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else FILL_IN
    # A password has no place in a layer, and the URL may be one that cannot be parsed.
    address = re.sub(r"(?<=://)[^/?#]*@", "", address)
    return {"url": address, "file": name, "sha256": sha256}


def added_source(url: str, checksum: str) -> dict[str, str]:
    """Return a source to fill in for the URL of ADD, which may name a repository."""
    address, _, revision = url.partition("#")
    if address.endswith(".git"):
        return git_source(f"{address}@{revision.partition(':')[0]}" if revision else address)
    return url_source(url if not checksum else f"{address}#{checksum.replace(':', '=')}")
