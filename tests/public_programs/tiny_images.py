"""Write small images of random colours, in a folder for each class."""

import random
import sys
from pathlib import Path

from PIL import Image

SIDE = 48
draw = random.Random(0)
for part, count in (("train", 4), ("val", 2)):
    # Programs that count the best five answers need more classes.
    for name in ("ant", "bee", "cat", "dog", "elk", "fox"):
        folder = Path(sys.argv[1]) / "images" / part / name
        folder.mkdir(parents=True)
        for number in range(count):
            colours = draw.randbytes(3 * SIDE * SIDE)
            Image.frombytes("RGB", (SIDE, SIDE), colours).save(folder / f"{number}.png")
