"""Print the median milliseconds of python's start: plain, and through lumi-entry. In the image."""

import statistics
import subprocess
import time

PLAIN = ["python3", "-c", "pass"]
ENTERED = ["lumi-entry", "--", *PLAIN]


def milliseconds(command):
    """Return the wall time of one whole process."""
    begun = time.perf_counter()
    subprocess.run(command, check=True)
    return (time.perf_counter() - begun) * 1000


# In turn, so that a machine that changes its speed changes it for both.
pairs = [(milliseconds(PLAIN), milliseconds(ENTERED)) for _ in range(31)]
print(*(statistics.median(times) for times in zip(*pairs[1:])))
