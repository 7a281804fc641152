"""Stands in for Megatron's: its compilation leaves a module, and a record of the environment."""

import json
import os
from pathlib import Path


def load(args):
    assert args.masked_softmax_fusion and args.rank == 0
    build = Path(__file__).parent / "build"
    build.mkdir(exist_ok=True)
    (build / "fused_mix_prec_layer_norm_cuda.py").write_text("")
    record = Path(os.environ["STAND_IN_RECORD"]) / "kernels.json"
    record.write_text(json.dumps(dict(os.environ)))
