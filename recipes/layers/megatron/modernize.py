"""Replace what newer PyTorch, NumPy and HIP have dropped in the tree whose path is given."""

import re
import sys
from pathlib import Path

PYTHON = [
    # PyTorch 2.0 has no torch._six.
    (r"^from torch\._six import inf$", "from torch import inf"),
    # NumPy 1.24 has no second names for Python's own types, and 2.0 no np.product.
    (r"\bnp\.(float|bool|int|object)\b", r"\1"),
    (r"\bnp\.product\b", "np.prod"),
    # From 2.6 on PyTorch loads tensors only, unless a program asks for more; Megatron's checkpoints
    # hold its arguments too (release notes of PyTorch 2.6, "weights_only").
    (r"\btorch\.load\(((?:[^()\n]|\([^()\n]*\))*)\)", r"torch.load(\1, weights_only=False)"),
]
KERNELS = [
    # ROCm 6 defines the first no longer; PyTorch defines the second for extensions
    # (torch/utils/cpp_extension.py, COMMON_HIP_FLAGS).
    (r"\b__HIP_PLATFORM_HCC__\b", "USE_ROCM"),
]
CHANGES = {".py": PYTHON, ".cu": KERNELS, ".h": KERNELS, ".cpp": KERNELS}


def modernize(tree):
    """Change the files below `tree`, and return how many places were changed."""
    changed = 0
    for path in sorted(each for each in tree.rglob("*") if each.suffix in CHANGES):
        text = path.read_text(encoding="utf-8")
        places = 0
        for pattern, replacement in CHANGES[path.suffix]:
            text, found = re.subn(pattern, replacement, text, flags=re.MULTILINE)
            places += found
        if places:
            path.write_text(text, encoding="utf-8")
            changed += places
    return changed


print(f"{modernize(Path(sys.argv[1]))} places made to fit PyTorch, NumPy and HIP of today")
