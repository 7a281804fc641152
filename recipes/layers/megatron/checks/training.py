# /// check
# summary: Megatron-DeepSpeed's training program can be imported, and finds its kernels
# hint: rebuild the layer megatron
# ///

import importlib
import sys
from importlib.machinery import PathFinder
from pathlib import Path

from lumi_inside.checking import parameters

TREE = Path("/opt/megatron-deepspeed")
KERNELS = TREE / "megatron/fused_kernels/build"

wanted = {"megatron.data.helpers": TREE / "megatron/data"}
if parameters("megatron")["fused_kernels"]:
    # Apex has a scaled_upper_triang_masked_softmax_cuda too.
    for name in ("scaled_upper_triang_masked_softmax_cuda", "fused_mix_prec_layer_norm_cuda"):
        wanted[name] = KERNELS

training = importlib.import_module("pretrain_gpt")
print(training.__file__)
if not Path(training.__file__).is_relative_to(TREE):
    sys.exit(f"pretrain_gpt is not the one in {TREE}")
for name, folder in wanted.items():
    if PathFinder.find_spec(name.rpartition(".")[2], [str(folder)]) is None:
        sys.exit(f"{name} is not compiled into the image: {folder} has none")
    try:
        importlib.import_module(name)
    except ImportError as error:
        sys.exit(f"{name} cannot be loaded: {error}")
