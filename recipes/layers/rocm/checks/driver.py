# /// check
# summary: the kernel's driver supports the image's ROCm
# level: full
# runs: node
# timeout_seconds: 60
# needs: {gpus: 1}
# hint: >-
#   build the image with a --profile whose ROCm the driver serves; lumicontainer check --platform
#   prints which
# ///

# The project's rules say which ROCm goes with which driver; drivers.json holds those
# that speak of this image's ROCm. They number a driver as the ROCm that it came with; its module
# has its own number, so that 6.3.6 is the driver of ROCm 6.0, and 6.10.5 the driver of 6.3.

import os

from lumi_inside import version_range
from lumi_inside.checking import failed, note, record, resolved, skipped

MODULE = "/sys/module/amdgpu/version"
CAME_WITH = {
    "6.2.4": "5.7",
    "6.3.6": "6.0",
    "6.7": "6.1",
    "6.8.5": "6.2",
    "6.10.5": "6.3",
    "6.12.12": "6.4",
    "6.14.14": "7.0",
    "6.16.6": "7.1",
}
"""ROCm by the version of the module, as the packages amdgpu-dkms of AMD's repositories are named:
6.10.5.60300 is the driver of ROCm 6.3.0 (AMD, user and kernel-space support matrix)."""


def holds(condition, driver):
    """Return whether a driver is one that a rule speaks of."""
    parts = [part.strip() for part in condition.split(",")]
    others = [part[2:] for part in parts if part.startswith("!=")]
    within = [part for part in parts if not part.startswith("!=") and part != "any"]
    return not any(version_range.holds(each, driver) for each in others) and (
        not within or version_range.holds(",".join(within), driver)
    )


try:
    with open(MODULE, encoding="ascii") as stream:
        module = stream.read().strip()
except FileNotFoundError:
    skipped(f"there is no {MODULE}: the driver is the kernel's own, and has no version")
driver = next(
    (rocm for number, rocm in CAME_WITH.items() if version_range.holds(number, module)), ""
)
rocm = resolved()["layers"]["rocm"]["version"]
host = os.uname().nodename
note("driver", {"module": module, "came with ROCm": driver, "image": rocm})
print(f"{host}: amdgpu {module}, which came with ROCm {driver or '?'}; the image has ROCm {rocm}")
if not driver:
    skipped(f"it is not known which ROCm amdgpu {module} came with")
rows = [row for row in record("drivers.json") if any(holds(each, driver) for each in row["driver"])]
errors = [row for row in rows if row["level"] == "error"]
if rows and not errors:
    skipped(f"{rows[0]['message']} (amdgpu {module}, of ROCm {driver}): {rows[0]['reason']}")
if errors:
    failed(
        *(
            f"{host}: {row['message']}: amdgpu {module} is the driver of ROCm {driver}, and the "
            f"image has ROCm {rocm}. {row['reason']} ({row['source']})"
            for row in errors
        )
    )
