"""Read recipes, profiles and layers from their files, and refuse what does not fit together."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from lumicontainer.core import model
from lumicontainer.core.apptainer_syntax import hazards
from lumicontainer.core.model.check import FOLDER, HOST, IMAGE
from lumicontainer.core.model.layer import LAYER, LAYERS, LOCALIMAGE, PROVIDER, parameter_value
from lumicontainer.core.model.recipe import PROFILE, RECIPE
from lumicontainer.core.model.requirements import check_files
from lumicontainer.core.schema.check import BEGIN, SUFFIXES, is_check, read_checks
from lumicontainer.core.yaml.parse import note_newer_format, parse_yaml, read_document
from lumicontainer.core.yaml.readers import Text
from lumicontainer.core.yaml.validators import (
    ACCELERATORS,
    COMPILE,
    EXPANSION,
    FINISH,
    RESERVED,
    SCRIPT,
)
from lumicontainer.errors import Place, Problems, did_you_mean, nearest


def read_recipe(text: str, file: str, problems: Problems, *, stem: str) -> model.Recipe | None:
    """Read a recipe; ``stem`` is its file's name without the suffix, and becomes its name."""
    document = read_document(RECIPE, text, file, problems)
    return document and document._replace(name=stem, text=text)


def read_profile(text: str, file: str, problems: Problems, *, stem: str) -> model.Profile | None:
    """Read a profile; ``stem`` is its file's name without the suffix, and becomes its name."""
    document = read_document(PROFILE, text, file, problems)
    return document and document._replace(name=stem)


def read_layer(
    text: str,
    file: str,
    problems: Problems,
    *,
    stem: str,
    files: tuple[model.LayerFile, ...] | None,
) -> model.Layer | None:
    """Read a layer; ``stem`` is the name of its folder, ``files`` are the others in it.

    If they are None, the layer is read without its files and has no checks, which is quicker.
    """
    before = len(problems.noted)
    folder = file.removesuffix("/layer.yaml")
    if stem in (IMAGE, HOST):
        why = "checks that belong to no layer go by that name"
        problems.add(f"invalid name '{stem}' of a layer", file, why=why, hint="rename its folder")
    root = parse_yaml(text, file, problems)
    known = root and not note_newer_format(root, problems)
    document = LAYER(root, problems) if root and known else None
    if files is not None:
        _judge_files(_scripts(document), files, file, text, problems)
        check_files(files, folder, problems)
    if document is None or len(problems.noted) > before:
        return None
    checks = read_checks(files or (), stem, folder, problems)
    layer = document._replace(
        name=stem,
        parameters=tuple(_parameters(document, problems)),
        files=tuple(each for each in files or () if not each.name.startswith(FOLDER)),
        checks=checks,
    )
    _check_parts(document, problems)
    return layer if len(problems.noted) == before else None


def _parts(layer: model.Layer) -> Iterator[model.Layer | model.Variant | model.Provider]:
    parts: tuple[model.Layer | model.Variant, ...] = (layer, *layer.variants.values())
    for part in parts:
        yield part
        yield from part.providers.values()


def _contents(layer: model.Layer) -> Iterator[model.Content]:
    for part in _parts(layer):
        yield from (part.content, *part.versions.values())


def _scripts(layer: model.Layer | None) -> dict[str, Place | None]:
    """Return the files that are run, with the place that names each; three may be missing."""
    scripts: dict[str, Place | None] = dict.fromkeys((SCRIPT, COMPILE, FINISH))
    if layer is not None:
        variants = layer.variants.values()
        named = [each for variant in variants for each in (variant.install, variant.compile)]
        named += [each.apt_repositories for each in _contents(layer)]
        for script in named:
            if isinstance(script, Text):
                scripts.setdefault(script, script.place)
    return scripts


def _check_parts(layer: model.Layer, problems: Problems) -> None:
    """Note what a layer's versions and providers miss, and a base that cannot be made."""
    if layer.version is None and any(part.versions for part in _parts(layer)):
        hint = "add 'version: \"…\"', the one of them to take unless another is asked for"
        problems.add("a layer with 'versions' needs 'version'", layer.place, hint=hint)
    declared = {each.name: each for each in layer.parameters}.get(PROVIDER)
    if declared and any(
        not isinstance(part, model.Layer | model.Variant) for part in _parts(layer)
    ):
        why = "'providers' makes one of this name"
        problems.add(f"a parameter cannot be named '{PROVIDER}'", declared.place, why=why)
    for each in _contents(layer):
        _check_values(each, problems)
    for each in () if layer.bootstrap else _contents(layer):
        if isinstance(each.image, Text):
            why = "only a layer with 'bootstrap' is a base"
            problems.add("this layer cannot be an image", each.image.place, why=why)
    for base in layer.bootstrap.values():
        _check_agent(base, layer, problems)
        if base.include and not base.by_debootstrap:
            why = "debootstrap alone installs packages while it makes a base"
            hint = "name them under packages.apt of this layer"
            problems.add("'include' is for debootstrap", base.include[0].place, why=why, hint=hint)


def _check_values(content: model.Content, problems: Problems) -> None:
    """Note values with the name of a variable, which nothing would replace."""
    for name, value in content.environment.items():
        place = value.place if isinstance(value, Text) else ""
        if not (match := EXPANSION.search(value)):
            continue
        folders = [each for each in EXPANSION.sub("", value).split(":") if each]
        hint = "write the value itself, or let a program of the image compute it"
        if name in match.groups():
            listed = ", ".join(folders) or "/folder"
            hint = f"take it out of 'environment', and write: prepend: {{{name}: [{listed}]}}"
        why = f"nothing replaces {match[0]}: values arrive as they are written"
        problems.add(f"the value of '{name}' names a variable", place, why=why, hint=hint)


def _check_agent(base: model.Bootstrap, layer: model.Layer, problems: Problems) -> None:
    """Note keys that a bootstrap's agent lacks, and keys of another agent."""
    local = {"file": base.file, "sha256": base.sha256}
    registry = {"docker_image": base.image}
    of_file = base.agent == LOCALIMAGE
    for name, value in (local if of_file else registry).items():
        if not value:
            hint = f"add '{name}: …'"
            problems.add(f"a bootstrap by {base.agent} needs '{name}'", layer.place, hint=hint)
    for name, value in (registry if of_file else local).items():
        if value:
            hint = f"remove '{name}', or choose another agent"
            problems.add(f"'{name}' is not for {base.agent}", layer.place, hint=hint)
    images = [each.image for each in _contents(layer) if isinstance(each.image, Text)]
    if of_file and images:
        what = f"'docker_image' is not for {base.agent}"
        problems.add(what, images[0].place, hint="write a layer for each image file")


def _parameters(layer: model.Layer, problems: Problems) -> Iterator[model.Parameter]:
    if layer.version is not None:
        summary = "the version to install"
        yield model.Parameter("version", "string", layer.version, layer.version.place, summary)
    for each in layer.parameters:
        if each.name in {*RESERVED, "version"} or each.name.startswith(("LD_", "BASH_FUNC")):
            what = f"a parameter cannot be named '{each.name}'"
            why = "the build gives that name another meaning"
            problems.add(what, each.place, why=why, hint="choose another name")
            continue
        if each.choices and each.type not in ("string", LAYERS):
            what = f"'choices' of '{each.name}' is for the types string and layers, not {each.type}"
            hint = "remove it, or make the parameter a string"
            problems.add(what, each.place, hint=hint)
        node: Any = each.default
        default = parameter_value(each, node, problems)
        if default is not None:
            yield each._replace(default=default)


_NAMES = (SCRIPT, COMPILE, FINISH)
_FOLDERS = (FOLDER.rstrip("/"), *ACCELERATORS)
_COPIES = (".orig", ".rej", ".bak", ".tmp")
"""Ends of names that editors and patch give to copies."""


def _judge_files(
    scripts: Mapping[str, Place | None],
    files: Sequence[model.LayerFile],
    file: str,
    text: str,
    problems: Problems,
) -> None:
    """Note what is wrong with the files of a layer, whose layer.yaml is ``file`` with this text.

    ``scripts`` are the files that are run, with the place that names each; scripts that nothing
    names may be missing.
    """
    folder = file.removesuffix("layer.yaml")
    contents = {each.name: each.content for each in files}
    for script, place in scripts.items():
        if script in contents:
            check_script(folder + script, contents[script], problems)
        elif place is not None:
            known = [each for each in contents if each.endswith(".sh") and "checks/" not in each]
            hint = did_you_mean(script, known) or "add the file"
            problems.add(f"the layer's folder has no file '{script}'", place, hint=hint)
    for each in files:
        if each.name.startswith(FOLDER) and each.name.endswith(".sh"):
            _check_lines(folder + each.name, each.content, problems)
    _refuse_lost_checks(files, folder, problems)
    for name, meant in _misspelled(files, text.encode("utf-8", "surrogateescape")):
        what = f"nothing uses '{name}'"
        hint = f"did you mean '{meant}'? Rename it, or name it in {SCRIPT}"
        problems.add(what, folder + name, hint=hint)


def check_script(path: str, content: bytes, problems: Problems) -> None:
    """Note why a script cannot stand in a definition, or would not run as it reads."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        problems.add("the script is not UTF-8 text", Place(path), why=str(error))
        return
    _check_lines(path, content, problems)
    for number, reason in hazards(text):
        hint = "write the line so that it begins otherwise, or put the text in a file next to it"
        what = "a line of the script cannot stand in a definition"
        problems.add(what, Place(path, number), why=reason, hint=hint)


def _check_lines(path: str, content: bytes, problems: Problems) -> None:
    """Note lines that end as on Windows: to bash the carriage return is a part of the last word."""
    before, ending, _ = content.partition(b"\r\n")
    if ending:
        place = Place(path, before.count(b"\n") + 1)
        hint = f"sed -i 's/\\r$//' {path}"
        problems.add("the script has Windows line endings (CRLF)", place, hint=hint)


def _refuse_lost_checks(files: Sequence[model.LayerFile], folder: str, problems: Problems) -> None:
    for file in files:
        if is_check(file.name) or BEGIN.encode() not in file.content.splitlines():
            continue
        path = PurePosixPath(file.name)
        if not file.name.startswith(FOLDER):
            hint = f"move it to {FOLDER}{path.name}"
        elif path.suffix not in SUFFIXES:
            hint = f"let its name end in {' or '.join(SUFFIXES)}"
        else:
            hint = "let its name begin without '_'"
        what = "this check is in no place where checks are read"
        problems.add(what, folder + file.name, hint=hint)


def _misspelled(files: Sequence[model.LayerFile], text: bytes) -> Iterator[tuple[str, str]]:
    """Yield names that nothing mentions, with the known name of which each is a near miss.

    If the known name is mentioned too, the other one is meant.
    """
    tops = dict.fromkeys(file.name.partition("/")[0] for file in files)
    folders = {file.name.partition("/")[0] for file in files if "/" in file.name}
    for name in tops:
        if name.startswith((".", "#")) or name.endswith(_COPIES):
            continue
        known = _FOLDERS if name in folders else _NAMES
        meant = nearest(name, known, 0.8)  # compiled.py does not mean compile.sh
        if not meant or meant in tops or _mentioned(name, files, text):
            continue
        mark = "/" if name in folders else ""
        yield name + mark, meant + mark


def _mentioned(name: str, files: Sequence[model.LayerFile], text: bytes) -> bool:
    word = name.encode("utf-8", "surrogateescape")
    others = (each.content for each in files if each.name.partition("/")[0] != name)
    return word in text or any(word in content for content in others)
