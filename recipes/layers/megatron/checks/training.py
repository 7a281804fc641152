# /// check
# proves: Megatron-DeepSpeed's training program can be imported, and finds what is compiled
# mend: build the layer megatron again
# ///

import importlib
import json
import sys
from pathlib import Path

TREE = Path("/opt/megatron-deepspeed")

resolved = json.loads(Path("/opt/lumicontainer/resolved.json").read_text(encoding="utf-8"))
wanted = ["megatron.data.helpers"]
if resolved["layers"]["megatron"]["parameters"]["fused_kernels"]:
    wanted += ["scaled_upper_triang_masked_softmax_cuda", "fused_mix_prec_layer_norm_cuda"]

training = importlib.import_module("pretrain_gpt")
print(training.__file__)
if not Path(training.__file__).is_relative_to(TREE):
    sys.exit(f"pretrain_gpt is not the one in {TREE}")
for name in wanted:
    try:
        importlib.import_module(name)
    except ImportError as error:
        sys.exit(f"{name} is not compiled into the image: {error}")
