"""A small image whose checks end in every way in which checks can end."""

import json
from pathlib import Path

from ..reports import BANDWIDTH, RANKS
from .conftest import SMALL, write_files

REPORTS = f"""
from lumi_inside.checking import measured, note
note("bandwidth", {BANDWIDTH!r})
note("ranks", {RANKS!r})
measured("speed", 112.5)
"""


def check(script: str, **changes: object) -> str:
    """Return the text of a check that ends as ``script`` does; ``changes`` go into its comment."""
    said = {"summary": "something holds", "hint": "build it again", **changes}
    rows = "".join(f"# {key}: {json.dumps(value)}\n" for key, value in said.items())
    return f"# /// check\n{rows}# ///\n{script}\n"


SPEED = {"unit": "GB/s", "minimum": 100, "reference": 125, "source": "a guide"}
WAYS = ("run", "shell", "cleanenv", "containall", "no-home", "umask")
CHECKS = {
    "pictures.py": check(REPORTS, thresholds={"speed": SPEED}),
    "environment.sh": check('test "$PROOF" = "it is here"', start_modes=WAYS),
    "gpu.sh": check("true", needs={"gpus": 1}),
    # Those of the level quick hold, or the image would not be.
    "mask.sh": check(
        'umask; test "$(umask)" != 0077',
        level="full",
        summary="files are for all",
        start_modes=["umask"],
    ),
    "fails.sh": check("echo '<b>it is broken</b>'; exit 1", level="full", hint="write & hint it"),
    "broken.py": check("raise ValueError('a fault of its own')", level="full"),
    "ranks.sh": check(
        'echo "rank $RANK of $WORLD_SIZE"; test "$WORLD_SIZE" -ge 2',
        level="full",
        runs="ranks",
        needs={"tasks": 2},
    ),
    "mpi.sh": check(
        'echo "PMI rank $PMI_RANK of $PMI_SIZE"; test "$PMI_SIZE" = "$SLURM_STEP_NUM_TASKS"',
        level="full",
        runs="ranks",
        needs={"mpi": True, "tasks": 2},
    ),
    "slow.sh": check("exec tail -f /dev/null", level="perf", timeout_seconds=600),
}


def write_proof(folder: Path) -> Path:
    """Write the recipe ``proof`` into ``folder``."""
    files = {
        "proof.yaml": "summary: an image to be verified\nbase: tiny\nlayers: [proof]\n",
        "layers/tiny/layer.yaml": SMALL["layers/tiny/layer.yaml"],
        "layers/proof/layer.yaml": (
            "summary: a layer with checks\nenvironment: {PROOF: it is here}\n"
            "parameters:\n  strength: {type: integer, default: 1}\n"
        ),
        "layers/proof/install.sh": "true\n",
        **{f"layers/proof/checks/{name}": text for name, text in CHECKS.items()},
    }
    return write_files(folder, files)
