"""Judge where ranks run: each next to its own GPU, and no two on the same cores."""

import collections

from lumi_inside.node import cpulist


def problems(rows, platform):
    """Yield what is wrong with where ranks run.

    Each of ``rows`` holds ``rank``, ``host``, ``pci`` (its GPU's place), ``cores``, ``nic`` (its
    name, empty if there is none) and ``nic_up``; ``platform`` is the image's platform.json.
    """
    table = {row["pci"].lower(): row for row in platform.get("gpus", ())}
    for row in rows:
        yield from _of_rank(row, table.get(row["pci"]), platform.get("interface_prefix", ""))
    for host in sorted({row["host"] for row in rows}):
        here = [row for row in rows if row["host"] == host]
        yield from _shared(here, "pci", "GPU")
        yield from _shared(here, "cores", "cores")
    yield from _crowded(rows)


def _of_rank(row, place, interfaces):
    who = f"rank {row['rank']} on {row['host']}"
    if place is None:
        yield f"{who} computes on the GPU at {row['pci'] or '?'}, which the platform does not know"
        return
    on, own = cpulist.parse_cpus(row["cores"]), cpulist.parse_cpus(place["cores"])
    near = own | cpulist.parse_cpus(place.get("reserved", ""))
    if on - near:
        yield (
            f"{who} runs on cores {row['cores']}, and its GPU {row['pci']} is next to "
            f"{place['cores']}: another CCD"
        )
    elif len(on) == 1 < len(own):
        yield f"{who} runs on core {row['cores']} alone, and its GPU has {place['cores']}"
    if interfaces and not row["nic"]:
        yield f"{who}: there is no interface {interfaces}* next to its GPU {row['pci']}"
    if row["nic"] and not row["nic_up"]:
        yield f"{who}: {row['nic']}, next to its GPU {row['pci']}, is down"


def _shared(rows, name, what):
    counted = collections.Counter(row[name] for row in rows)
    for value, count in counted.items():
        if count > 1:
            ranks = ", ".join(str(row["rank"]) for row in rows if row[name] == value)
            yield f"ranks {ranks} on {rows[0]['host']} have the same {what}: {value}"


def _crowded(rows):
    """Yield interfaces that more than the two GPUs of a package are next to."""
    counted = collections.Counter((row["host"], row["nic"]) for row in rows if row["nic"])
    for (host, nic), count in counted.items():
        if count > 2:
            yield f"{count} ranks on {host} have {nic} as the next interface, not two"
