"""Replace what newer PyTorch and NumPy have no more in the tree whose path is given."""

import re
import sys
from pathlib import Path

CHANGES = [
    # PyTorch 2.0 has no torch._six.
    (r"^from torch\._six import inf$", "from torch import inf"),
    # NumPy 1.24 has no second names for Python's own types, and 2.0 no np.product.
    (r"\bnp\.(float|bool|int|object)\b", r"\1"),
    (r"\bnp\.product\b", "np.prod"),
]


def modernize(tree):
    """Change the files below `tree`, and return how many places were changed."""
    changed = 0
    for path in sorted(tree.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        places = 0
        for pattern, replacement in CHANGES:
            text, found = re.subn(pattern, replacement, text, flags=re.MULTILINE)
            places += found
        if places:
            path.write_text(text, encoding="utf-8")
            changed += places
    return changed


print(f"{modernize(Path(sys.argv[1]))} places made to fit PyTorch and NumPy of today")
