"""Make the files of a recipe and its layer from a draft."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from lumicontainer.constants import FORMAT
from lumicontainer.core.apptainer_syntax import fits_a_line
from lumicontainer.core.catalog import LAYERS, SCHEMAS
from lumicontainer.core.model.files import LayerFile
from lumicontainer.core.yaml.readers import needs_quotes
from lumicontainer.core.yaml.validators import SCRIPT
from lumicontainer.errors import InputError, Problem
from lumicontainer.importing.draft import Draft
from lumicontainer.system.files.recipe_folder import MAX_FILE_BYTES
from lumicontainer.system.terminal import masking

_SCHEMA = "# yaml-language-server: $schema={}{}/{}.json\n"
_SCRIPT = """\
#!/usr/bin/env bash
# Runs as root in the container, in a folder with the layer's other files. Parameters are variables.
# Lines in ( ) come from {file}, and shellcheck does not judge them.
set -eo pipefail

"""
_TO_PIN = """\

# Not carried over: fill in what pins them, and let install.sh use them as $sources/NAME.
# sources:
"""
_MISSING = """\

# The image lacks these. Delete the line of each that you added to the layer, or do without.
missing:
"""


class _Dumper(yaml.SafeDumper):
    """Quote what our reader or another version of YAML would not take for text."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write each value where it stands."""
        del data
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    plain = value.isprintable() and not needs_quotes(value)
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, None if plain else '"')


_Dumper.add_representer(str, _text)
_Dumper.add_multi_representer(str, _text)


def _dump(value: Mapping[str, Any]) -> str:
    return yaml.dump(
        {key: each for key, each in value.items() if each},
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=None,
        width=100,
    )


def files_of(
    draft: Draft, file: str, layers: Sequence[Any], profiles: Sequence[str], base: str
) -> dict[str, LayerFile]:
    """Return the files of a recipe and its layer, by their names below its folder."""
    shown = file if fits_a_line(file) else "an imported file"
    summary = f"what {shown} installs"
    own = [draft.name] if draft.is_layer() or draft.to_pin else []
    recipe = {"format": FORMAT, "summary": summary, "base": base, "profiles": [*profiles]}
    folder = f"{LAYERS}/{draft.name}"
    texts = {f"{folder}/layer.yaml": _layer(draft, summary)} if own else {}
    # A layer needs a script where all that it holds is still to be pinned.
    if draft.script or (own and not draft.is_layer()):
        texts[f"{folder}/{SCRIPT}"] = _SCRIPT.format(file=shown) + "\n".join(draft.script)
    text = _SCHEMA.format("", SCHEMAS, "recipe") + _dump({**recipe, "layers": [*layers, *own]})
    text += _missing(draft)
    made = {name: LayerFile(name, 0o644, each.encode()) for name, each in texts.items()}
    copied = {f"{folder}/{name}": each for name, each in draft.files.items()}
    name = f"{draft.name}.yaml"
    # A folder without its recipe is one that was not finished.
    files = {**copied, **made, name: LayerFile(name, 0o644, text.encode())}
    _refuse_large(file, files)
    return files


def _refuse_large(file: str, files: Mapping[str, LayerFile]) -> None:
    """Raise ``InputError`` if a file is too large to be read as a part of a recipe."""
    large = (name for name, each in files.items() if len(each.content) > MAX_FILE_BYTES)
    if name := next(large, ""):
        why = f"its {name} would have more than {MAX_FILE_BYTES >> 20} MiB"
        raise InputError(Problem("cannot write a recipe", file, why, "import its parts"))


def _missing(draft: Draft) -> str:
    """Return the key of a recipe that names what the image lacks; empty if it lacks nothing."""
    texts = (f"{each.missing} ({each.file}:{each.line})" for each in draft.missing())
    rows = "".join(f"  - {json.dumps(_shown(each), ensure_ascii=False)}\n" for each in texts)
    return f"{_MISSING}{rows}" if rows else ""


def _shown(text: str) -> str:
    """Return a text without secrets, and without characters that no line of a recipe can hold."""
    parts = (each if each.isprintable() else ascii(each)[1:-1] for each in masking.masked(text))
    return "".join(parts)


def _layer(draft: Draft, summary: str) -> str:
    parameters = {
        name: {"type": "string", "default": value, "summary": f"ARG {name}"}
        for name, value in draft.parameters.items()
    }
    packages = {"apt": [*draft.apt], "python": [*draft.python]}
    text = _SCHEMA.format("../../", SCHEMAS, "layer") + _dump(
        {
            "format": FORMAT,
            "summary": summary,
            "requires": ["python"],
            "parameters": parameters,
            "packages": {kind: names for kind, names in packages.items() if names},
            "environment": draft.environment,
            "path": draft.path,
            "prepend": draft.prepend,
        }
    )
    sources = "".join(f"#   - {_flow(each)}\n" for each in draft.to_pin)
    return text + (_TO_PIN + sources if sources else "")


def _flow(source: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{key}: {json.dumps(value)}" for key, value in source.items()) + "}"
