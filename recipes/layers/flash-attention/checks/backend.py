# /// check
# summary: FlashAttention is there with the kernels that the recipe promises
# hint: rebuild the layer flash-attention; unset its variable outside the image
# ///

import importlib
import os
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from lumi_inside.checking import parameters, skipped

promised = parameters("flash-attention")["provider"]
asked = os.environ.get("FLASH_ATTENTION_TRITON_AMD_ENABLE", "FALSE") == "TRUE"
print(f"flash-attn {version('flash-attn')}, {promised}")
if asked != (promised == "triton"):
    sys.exit(
        f"the recipe has the kernels of {promised}, and FLASH_ATTENTION_TRITON_AMD_ENABLE "
        f"is {'set' if asked else 'not set'}: another backend is used at run time"
    )
if promised == "ck" and find_spec("flash_attn_2_cuda") is None:
    sys.exit("the recipe promises Composable Kernel's kernels, and none are compiled in")
if promised == "triton" and not Path("/dev/kfd").exists():
    skipped("Triton's kernels ask for the GPU when they are imported, and there is none here")

interface = importlib.import_module("flash_attn.flash_attn_interface")
found = "triton" if interface.USE_TRITON_ROCM else "ck"
if found != promised:
    sys.exit(f"flash_attn is imported with {found}, and the recipe promises {promised}")
