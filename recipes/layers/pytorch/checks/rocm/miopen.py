# /// check
# summary: >-
#   convolutions are correct on all ranks of a node that share MIOpen's cache, and the cache stays
#   whole
# level: full
# runs: ranks
# timeout_seconds: 300
# needs: {gpus: 1, tasks: 2}
# hint: >-
#   start ranks by lumi-entry, which puts the cache on the node; remove the folder that is named;
#   MIOPEN_DEBUG_DISABLE_SQL_WAL=1 (MIOpen issue 2214)
# ///

# MIOpen's caches are SQLite files, which broke when processes shared them on Lustre: MIOpen issues
# 1878 and 2214. lumi-entry puts them on the node, where all of its ranks use one.

import os
import sqlite3
from pathlib import Path

import _gpu as gpu
import torch
from lumi_inside.checking import record
from torch.nn.functional import conv2d

VARIABLES = ("MIOPEN_USER_DB_PATH", "MIOPEN_CUSTOM_CACHE_DIR")
SHAPES = ((8, 3, 32, 7), (16, 16, 28, 3), (4, 32, 14, 1), (2, 64, 56, 3))
"""Rows, channels, side, and that of the kernel: MIOpen searches a way for each."""
ALLOWED = 1e-3
"""In fp32: some of MIOpen's ways (Winograd) lose more than plain sums do."""
SQLITE = b"SQLite format 3\0"


def without_cache():
    """Yield where MIOpen's caches do not lie where the platform wants them."""
    wanted = {row["name"] for row in record("platform.json").get("caches", ())}
    for name in VARIABLES:
        if name in wanted and not os.environ.get(name):
            yield f"{name} is not set: MIOpen's cache would lie in the home folder, on Lustre"


def wrong_results(on):
    """Yield convolutions that are not what they are on the CPU in float64."""
    torch.manual_seed(7)
    for rows, channels, side, kernel in SHAPES:
        image = torch.randn(rows, channels, side, side)
        weight = torch.randn(2 * channels, channels, kernel, kernel)
        wanted_image, wanted_weight = (each.double().requires_grad_() for each in (image, weight))
        conv2d(wanted_image, wanted_weight, padding=kernel // 2).pow(2).mean().backward()
        found_image, found_weight = (each.to(on).requires_grad_() for each in (image, weight))
        result = conv2d(found_image, found_weight, padding=kernel // 2)
        result.pow(2).mean().backward()
        wanted = conv2d(wanted_image, wanted_weight, padding=kernel // 2)
        pairs = (
            (result, wanted),
            (found_image.grad, wanted_image.grad),
            (found_weight.grad, wanted_weight.grad),
        )
        apart = max(gpu.apart(*pair) for pair in pairs)
        print(f"{channels} channels, {side}x{side}, kernel {kernel}: {apart:.1e} apart")
        if apart > ALLOWED:
            yield (
                f"a convolution of {channels} channels, {side}x{side} with {kernel}x{kernel}, is "
                f"{apart:.1e} apart from the CPU's"
            )


def broken_files():
    """Yield the SQLite files of the caches that are not whole."""
    folders = {os.environ[name] for name in VARIABLES if os.environ.get(name)}
    for path in sorted(path for folder in folders for path in Path(folder).rglob("*db")):
        with path.open("rb") as stream:
            if stream.read(len(SQLITE)) != SQLITE:
                continue
        try:
            with sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True) as database:
                found = database.execute("PRAGMA integrity_check").fetchone()[0]
        except sqlite3.DatabaseError as error:
            found = str(error)
        if found != "ok":
            yield f"MIOpen's cache {path} is broken: {found}"


ranks = gpu.Ranks()
problems = list(without_cache())
ranks.meet()
problems += wrong_results(ranks.device)
ranks.meet()
if ranks.local == 0:
    problems += broken_files()
ranks.note("caches", {name: os.environ.get(name, "") for name in VARIABLES})
ranks.conclude(problems)
