"""Refuse a wheel of torch that requires CUDA packages, before any of them is fetched."""

import json
import re
import sys


def cuda_packages(requirements):
    """List the CUDA packages among `requirements`, as the wheel's metadata writes them."""
    names = (re.match(r"[\w.-]+", text).group().lower() for text in requirements)
    return sorted({name for name in names if name.startswith(("cuda-", "nvidia-"))})


def main(report, index):
    """Exit with a message when the wheel in pip's `report` requires CUDA packages."""
    with open(report, encoding="utf-8") as file:
        (offer,) = json.load(file)["install"]
    wheel = offer["metadata"]
    unwanted = cuda_packages(wheel.get("requires_dist", []))
    if unwanted:
        sys.exit(
            f"error: torch {wheel['version']} requires CUDA packages: {', '.join(unwanted)}\n"
            f"  where: {offer['download_info']['url']}\n"
            "    why: they have several GB, and this accelerator cannot use them\n"
            f"   hint: make {index} reachable, or name a folder with that index's wheel of torch\n"
            "         as find-links in pip's configuration"
        )


main(*sys.argv[1:])
