"""A platform is one file; what it says is read whole, or all that is wrong is reported."""

from __future__ import annotations

import pytest

from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.model import Gpu, Platform
from lumicontainer.core.model.platform import Conditions
from lumicontainer.core.plan.records import platform_tables
from lumicontainer.core.schema import platform
from lumicontainer.errors import InputError, Problems
from lumicontainer.inside.rank import variables

from ....conftest import Write

HEAD = "summary: x\naccelerator: rocm\n"
ROW = "  - {name: A, value: x, reason: w, source: s"


def problems_of(text: str) -> str:
    problems = Problems()
    result = platform.read_platform(HEAD + text, "p.yaml", problems, stem="p")
    assert (result is None) == bool(problems.noted)
    return "\n".join(str(problem) for problem in problems.noted)


def lumi() -> Platform:
    return open_catalog().platform("lumi-g")


def test_each_gcd_of_lumi_g_has_seven_cores_of_one_ccd_beside_the_system_s_own() -> None:
    masks = []
    for gpu in lumi().gpus:
        first, last = map(int, gpu.cores.split("-"))
        assert first % 8 == 1, "a CCD begins at a multiple of eight"
        assert last == first + 6
        assert int(gpu.reserved) == first - 1
        assert gpu.numa == first // 16, "a NUMA node holds two CCDs"
        masks.append(f"0x{sum(1 << core for core in range(first, last + 1)):x}")
    assert ",".join(masks) == (
        "0xfe000000000000,0xfe00000000000000,0xfe0000,0xfe000000,"
        "0xfe,0xfe00,0xfe00000000,0xfe0000000000"
    )
    buses = [gpu.pci.split(":")[1] for gpu in lumi().gpus]
    assert buses == ["c1", "c6", "c9", "ce", "d1", "d6", "d9", "de"]


def test_a_rank_on_lumi_g_reads_all_tables_of_its_platform() -> None:
    tables = {"gpus", "interface_prefix", "variables", "discouraged", "advised", "caches"}
    assert platform_tables(lumi()).keys() == tables
    assert platform_tables(open_catalog().platform("workstation")) == {}


def test_a_newcomer_s_platform_is_one_file(write: Write) -> None:
    text = (
        f"{HEAD}gpus: [{{pci: '0000:03:00.0', cores: '0-3', numa: 0}}]\ninterface_prefix: eth\n"
        "variables:\n  - {name: A, value_from: interfaces, reason: w, source: s,"
        " when: {nodes: '>1'}}\n"
        "caches:\n  - {name: TMPDIR, folder: tmp, storage: node, reason: w, source: s}\n"
    )
    mine = open_catalog(write({"envs/mine.yaml": text})).platform("mine")
    assert mine.gpus == (Gpu("0000:03:00.0", "0-3", 0),)
    because = {"reason": "w", "source": "s"}
    when = {"nodes": ">1"}
    assert platform_tables(mine) == {
        "gpus": [{"pci": "0000:03:00.0", "cores": "0-3", "numa": 0}],
        "interface_prefix": "eth",
        "variables": [{"name": "A", **because, "value_from": "interfaces", "when": when}],
        "caches": [{"name": "TMPDIR", "folder": "tmp", "storage": "node", **because}],
    }


def test_every_condition_that_can_be_written_can_be_decided_at_the_start_of_a_rank() -> None:
    assert set(Conditions._fields) == set(variables.CONDITIONS)


PCI = "pci: '0000:c1:00.0'"
TWO_GPUS = f"gpus:\n  - {{{PCI}, cores: 1-7, numa: 0}}\n  - {{pci: '0000:"
GPUS, VARIABLES, CACHES = ("gpus:\n  - {", "variables:\n  - {", "caches:\n  - {")
WHY = "reason: w, source: s}\n"
PARTITION = (
    "slurm:\n  billing:\n    - {name: a, unit: u, cores: 1, memory: 1G, rate: 1, source: s}\n"
    "  partitions:\n    - {name: p, nodes: 1, cores: 1, memory: 1G, max_time: 1d, max_nodes: 1,"
    " max_jobs: 1, running_jobs: 1, source: s, billing: "
)
BAD = "discouraged:\n  - {name: A, hint: h, reason: w, source: s"


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("driver: '6.3-x'\n", "3:9", "version of the driver"),
        ('proot: "one\\nmore"\n', "3:8", "one line of printable text"),
        (f"{GPUS}pci: 'c1', cores: '1', numa: 0}}\n", "4:11", "PCI address"),
        (f"{GPUS}{PCI}, cores: 7-1, numa: 0}}\n", "4:34", "its numbers rise"),
        (f"{GPUS}{PCI}, cores: 1-9999, numa: 0}}\n", "4:34", "below 8192"),
        (f"{GPUS}{PCI}, cores: '0xfe', numa: 0}}\n", "4:34", "list of processors"),
        (f"{GPUS}{PCI}, cores: '1', numa: -1}}\n", "4:45", "counted from 0"),
        (f"{GPUS}{PCI}, numa: 0}}\n", "4:5", "needs 'cores'"),
        (f"{GPUS}{PCI}, cores: 0-7, reserved: '0', numa: 0}}\n", "4:5", "core 0"),
        (f"{TWO_GPUS}c2:00.0', cores: '6-8,20', numa: 0}}\n", "5:5", "two GPUs share cores 6, 7"),
        (f"{TWO_GPUS}c1:00.0', cores: 8-9, numa: 0}}\n", "5:5", "duplicate GPU"),
        (f"variables:\n{ROW}, when: {{rcm: '1'}}}}\n", "4:54", "did you mean 'rocm'?"),
        (f"variables:\n{ROW}, when: {{rocm: '~6'}}}}\n", "4:60", "invalid limit"),
        (f"variables:\n{ROW}, when: {{rocm: '<6,>7'}}}}\n", "4:60", "nothing lies in the range"),
        (f"variables:\n{ROW}, when: {{nodes: '1.5'}}}}\n", "4:61", "whole numbers"),
        (f"variables:\n{ROW}, when: {{device: gxi}}}}\n", "4:62", "did you mean 'cxi'?"),
        (f"variables:\n{ROW}, when: {{plugin: aws}}}}\n", "4:62", "invalid plugin 'aws'"),
        (f"variables:\n{ROW}, when: {{plugin: aws-ofi-nccl x}}}}\n", "4:62", "invalid limit"),
        (f"{VARIABLES}name: A, value: x, reason: w}}\n", "4:5", "needs 'source'"),
        (f"{VARIABLES}name: A, {WHY}", "4:12", "either 'value' or 'value_from'"),
        (
            f"variables:\n{ROW}, value_from: interfaces}}\ninterface_prefix: e\n",
            *("4:12", "either 'value' or"),
        ),
        (f"{VARIABLES}name: A, value_from: interfaces, {WHY}", "4:12", "names no in"),
        (f"{VARIABLES}name: RANK, value: x, {WHY}", "4:12", "cannot set RANK"),
        (f"{VARIABLES}name: PATH, value: x, {WHY}", "4:12", "cannot hold"),
        (f"variables:\n{ROW}}}\n{ROW}, when: {{rocm: '<6'}}}}\n", "5:12", "is set twice"),
        (
            f"variables:\n{ROW}, when: {{rocm: '<6.3'}}}}\n{ROW}, when: {{rocm: '>=6.2'}}}}\n",
            *("5:12", "exclude each other"),
        ),
        (
            f"variables:\n{ROW}, when: {{plugin: aws-ofi-nccl <1.20}}}}\n"
            f"{ROW}, when: {{plugin: aws-ofi-nccl >=1.19}}}}\n",
            *("5:12", "exclude each other"),
        ),
        (
            f"variables:\n{ROW}}}\n{CACHES}name: A, folder: a, storage: node, {WHY}",
            *("6:12", "is set twice"),
        ),
        (f"{CACHES}name: A, folder: ../a, storage: node, {WHY}", "4:23", "a folder such as"),
        (f"{CACHES}name: A, folder: a, storage: nodes, {WHY}", "4:35", "did you mean 'node'?"),
        (f"discouraged:\n  - {{name: A, {WHY}", "4:5", "a discouraged variable needs 'hint'"),
        (f"{BAD}, values: [3]}}\n", "4:55", 'write "3"'),
        (f"{BAD}, when: {{moon: full}}}}\n", "4:53", "no key 'moon'"),
        (
            f"{BAD}, values: [x], allowed_values: [z]}}\n",
            "4:12",
            "both 'values' and 'allowed_values'",
        ),
        (f"variables:\n{ROW}}}\n{BAD}, values: ['x*']}}\n", "6:12", "discouraged, and set to x"),
        (f"{PARTITION}b}}\n", "7:127", "no billing rule 'b'"),
        (f"{PARTITION.replace('1d', '1w')}a}}\n", "7:59", "write it like 2d, 3h or 30m"),
        (f"{PARTITION.replace('nodes: 1,', 'nodes: 0,')}a}}\n", "7:24", "from 1 on"),
        (f"{PARTITION.replace('name: p, ', '')}a}}\n", "7:7", "a partition needs 'name'"),
    ],
)
def test_what_is_wrong_is_reported_at_its_place(text: str, place: str, words: str) -> None:
    printed = problems_of(text)
    assert f"p.yaml:{place}" in printed
    assert words in printed


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("rocm: '<6.2'", "rocm: '>=6.2'"),
        ("rocm: '6.1'", "rocm: '6.2'"),
        ("nodes: '1'", "nodes: '>1'"),
        ("ranks: '<2'", "ranks: '>1'"),
        ("plugin: aws-ofi-nccl", "plugin: aws-ofi-rccl"),
        ("plugin: aws-ofi-nccl <1.19", "plugin: aws-ofi-nccl >=1.19"),
        ("rocm: '<7', nodes: '1'", "rocm: '<7', nodes: '>=2'"),
    ],
)
def test_a_variable_may_have_rows_that_exclude_each_other(one: str, other: str) -> None:
    assert problems_of(f"variables:\n{ROW}, when: {{{one}}}}}\n{ROW}, when: {{{other}}}}}\n") == ""


def test_what_the_platform_sets_elsewhere_may_be_discouraged() -> None:
    one, other = (f", when: {{rocm: '{limits}'}}}}\n" for limits in ("<7", ">=7"))
    assert problems_of(f"variables:\n{ROW}{one}{BAD}, values: [x]{other}") == ""


def test_several_mistakes_are_reported_at_once(write: Write) -> None:
    text = f"{HEAD}gpu: []\ncaches: x\nvariables:\n{ROW}, when: {{rocm: x}}}}\n{ROW}, wen: {{}}}}\n"
    with pytest.raises(InputError) as error:
        open_catalog(write({"envs/mine.yaml": text})).platform("mine")
    for words in ("mean 'gpus'?", "expected a list", "invalid limit", "mean 'when'?"):
        assert words in str(error.value)
