# /// check
# summary: DeepSpeed's ops are compiled for the wave size of gfx90a, which is 64
# hint: "rebuild the layer deepspeed, after rocm: rocminfo, or its stand-in, has to
#   mention gfx90a"
# ///

import re
from importlib.metadata import files
from pathlib import Path

from lumi_inside.checking import failed
from lumi_inside.elf.fatbin import codes
from lumi_inside.elf.reader import UnreadableError

WAVE = 64
TOLD = re.compile(rb"ROCM_WAVEFRONT_SIZE=([0-9]*)\0")
"""Each op contains this line of the layer's wave_size.h."""

stated, silent, wrong = 0, [], []
for each in files("deepspeed") or ():
    path = Path(each.locate())
    if path.suffix != ".so":
        continue
    try:
        if not codes(str(path)):  # it has no kernels
            continue
    except UnreadableError as error:
        failed(f"{path} cannot be read: {error}")
    sizes = set(TOLD.findall(path.read_bytes()))
    if not sizes:
        silent.append(f"{path} does not say for which wave size it is compiled")
    elif sizes != {str(WAVE).encode()}:
        seen = ", ".join(sorted(size.decode() for size in sizes))
        wrong.append(f"{path} is compiled for a wave size of {seen}, and gfx90a has {WAVE}")
    else:
        stated += 1
if wrong or silent:
    failed(*wrong, *silent)
print(f"{stated} ops with kernels are compiled for a wave size of {WAVE}")
