# /// check
# summary: PyTorch is the one for this accelerator, computes, and came without CUDA packages
# imports: [torch]
# hint: rebuild the layer pytorch, with the index that its layer names
# ///

import sys
from importlib.metadata import distributions

import torch
from lumi_inside.checking import resolved

wanted = resolved()["platform"]["accelerator"]
built = "rocm" if torch.version.hip else "cuda" if torch.version.cuda else "cpu"
print(f"torch {torch.__version__}, built for {built}")
if built != wanted:
    sys.exit(f"torch is built for {built}, and the image is for {wanted}")

names = {distribution.metadata["Name"].lower() for distribution in distributions()}
cuda = sorted(name for name in names if name.startswith(("cuda-", "nvidia-")))
if cuda:
    sys.exit(f"CUDA packages are installed: {', '.join(cuda)}")

if not torch.distributed.is_gloo_available():
    sys.exit("torch.distributed has no gloo backend")

total = (torch.ones(3, 4) @ torch.ones(4, 3)).sum().item()
if total != 36:
    sys.exit(f"a product of ones sums to {total}, not to 36")
