"""What layers put right once all are installed: the last step runs their ``finish.sh`` in order.

A layer may need something to stand otherwise while later ones are built than in the image.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lumicontainer.core.model import LayerFile
from lumicontainer.core.resolve.resolve import Resolved
from lumicontainer.core.yaml.validators import FINISH

Finishing = Mapping[str, Sequence[LayerFile]]
"""The files of each layer that has a ``finish.sh``, in the order of the layers."""


def finishing(resolved: Resolved) -> Finishing:
    """Return what the last step runs for the layers, and with which files beside it."""
    return {
        layer.name: layer.files
        for layer in resolved.included()
        if any(file.name == FINISH for file in layer.files)
    }


def finish_files(layers: Finishing) -> list[LayerFile]:
    """Return the files that the last step stages, each layer's in a folder of its own."""
    return [
        file._replace(name=f"{_folder(name)}/{file.name}")
        for name, files in layers.items()
        for file in files
    ]


def finish_text(layers: Finishing, stage: str) -> str:
    """Return the shell text that runs them."""
    return "".join(f"(cd {stage}/{_folder(name)} && bash ./{FINISH})\n" for name in layers)


def _folder(layer: str) -> str:
    return f"finish/{layer}"
