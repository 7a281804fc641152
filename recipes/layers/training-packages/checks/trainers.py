# /// check
# summary: the packages that train with PyTorch take the PyTorch that is here
# imports: [torch, torch._dynamo, transformers.modeling_utils, lightning]
# hint: rebuild the layer training-packages, with versions that accept this PyTorch
# ///

import accelerate
import lightning
import torch
import transformers

for package in (accelerate, lightning, transformers):
    print(package.__name__, package.__version__)
print("torch", torch.__version__)
transformers.Trainer  # noqa: B018 - found by its name only when it is asked for
