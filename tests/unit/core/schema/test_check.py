"""The comment of a check is read as data, with every problem at its place."""

import pytest

from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.model import Check, Checks, LayerFile
from lumicontainer.core.schema.check import read_checks
from lumicontainer.errors import InputError, Problems
from lumicontainer.inside.verify.outcome import judge

from ....conftest import Write

SPEED = """\
#!/usr/bin/env bash
# /// check
# summary: GPUs talk to each other
# level: perf
# runs: ranks
# timeout_seconds: 300
# needs: {gpus: 8, architecture: gfx90a, nodes: 2, network: cxi}
# thresholds:
#   busbw: {unit: GB/s, minimum: 80.75, reference: 85, architecture: gfx90a,
#           source: somebody measured it}
# start_modes: [run, cleanenv]
# reads: [/opt/net/*]
# each_path: true
# hint: look at the network
# ///
true
"""


PLAIN = "# /// check\n# summary: x\n# hint: again\n# ///\n"


def read(text: str, name: str = "checks/speed.sh") -> Checks:
    problems = Problems()
    checks = read_checks((LayerFile(name, 0o644, text.encode()),), "net", "layers/net", problems)
    problems.raise_if_any()
    return checks


def only(text: str) -> Check:
    (check,) = read(text).each
    return check


def error_of(text: str) -> str:
    with pytest.raises(InputError) as caught:
        read(text)
    return str(caught.value)


def test_a_check_is_named_after_its_layer_and_its_file() -> None:
    assert only(SPEED).name == "net/speed"
    assert read(SPEED, "checks/rocm/speed.sh").each[0].name == "net/speed"


def test_all_that_the_comment_says_is_there() -> None:
    check = only(SPEED)
    assert (check.summary, check.hint) == ("GPUs talk to each other", "look at the network")
    assert (check.level, check.runs, check.timeout_seconds) == ("perf", "ranks", 300)
    assert (check.needs.gpus, check.needs.architecture, check.needs.nodes) == (8, "gfx90a", 2)
    assert check.needs.network == "cxi"
    assert check.thresholds["busbw"]._asdict() == {
        "unit": "GB/s",
        "minimum": 80.75,
        "maximum": None,
        "reference": 85,
        "architecture": "gfx90a",
        "source": "somebody measured it",
    }
    assert check.start_modes == ("run", "cleanenv")
    assert (check.reads, check.each_path) == (("/opt/net/*",), True)


def test_what_is_not_said_is_the_least() -> None:
    check = only(PLAIN)
    assert (check.level, check.runs, check.timeout_seconds) == ("quick", "once", 60)
    assert (check.needs.gpus, check.needs.nodes, check.needs.tasks) == (0, 1, 1)
    assert (check.reads, check.each_path) == ((), False)


def test_a_file_that_checks_share_is_taken_and_is_no_check() -> None:
    checks = read("def helper() -> None: ...\n", "checks/_shared.py")
    assert [file.name for file in checks.files] == ["checks/_shared.py"]
    assert checks.each == ()


@pytest.mark.parametrize("text", ["true\n", "# /// check\n# summary: x\ntrue\n"])
def test_a_script_without_a_whole_comment_gets_a_hint_how_to_begin(text: str) -> None:
    assert "the check has no header" in error_of(text)
    assert "# /// check" in error_of(text)


def test_problems_are_reported_at_their_place_in_the_file() -> None:
    error = error_of(SPEED.replace("perf", "slow").replace("timeout_seconds", "timeout_second"))
    assert "invalid level 'slow'" in error
    assert "layers/net/checks/speed.sh:4:10" in error
    assert "a check has no key 'timeout_second'" in error
    assert "layers/net/checks/speed.sh:6:3" in error


def with_limit(limit: str) -> str:
    return PLAIN.replace("# ///\n", f"# thresholds: {{speed: {limit}}}\n# ///\n")


def test_a_reference_alone_is_reported_and_judges_nothing() -> None:
    limit = "{unit: TFLOP/s, reference: 91, architecture: gfx90a, source: x}"
    threshold = only(with_limit(limit)).thresholds["speed"]._asdict()
    row = {name: value for name, value in threshold.items() if value is not None}
    came = judge({"measured": "speed", "value": 1.0}, {"thresholds": {"speed": row}}, "gfx90a")
    assert (came["holds"], came["reference"]) == (None, 91)
    assert came["unjudged"] == "it has no limit"


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ("{unit: s, source: x}", "either a minimum or a maximum"),
        ("{unit: s, source: x, minimum: 1, maximum: 2}", "either a minimum or a maximum"),
        ("{unit: s, source: x, minimum: -1}", "expected a number"),
        ('{unit: s, source: x, minimum: "1"}', "expected a number"),
        ("{unit: s, minimum: 1}", "a threshold needs 'source'"),
    ],
)
def test_a_threshold_that_says_nothing_is_refused(limit: str, message: str) -> None:
    assert message in error_of(with_limit(limit))


@pytest.mark.parametrize(
    ("files", "refused"),
    [
        (("checks/a.py", "checks/a.sh"), True),
        (("checks/rocm/a.sh", "checks/a.py"), True),
        (("checks/cpu/a.py", "checks/rocm/a.py"), False),
        (("checks/a.py", "checks/b.py"), False),
    ],
)
def test_two_checks_of_one_image_have_two_names(files: tuple[str, ...], refused: bool) -> None:
    problems = Problems()
    read = [LayerFile(name, 0o644, PLAIN.encode()) for name in files]
    read_checks(read, "net", "layers/net", problems)
    messages = [str(problem) for problem in problems.noted]
    assert len(messages) == refused
    if refused:
        assert "two checks are called 'net/a'" in messages[0]
        assert all(f"layers/net/{name}" in messages[0] for name in files)


@pytest.mark.parametrize(("own", "refused"), [("cpu/files.sh", True), ("files.sh", False)])
def test_an_own_check_has_no_name_of_a_shipped_one_in_another_folder(
    write: Write, own: str, refused: bool
) -> None:
    problems = Problems()
    open_catalog(write({f"checks/{own}": PLAIN})).checks(problems)
    messages = [str(problem) for problem in problems.noted]
    assert len(messages) == refused
    if refused:
        assert "two checks are called 'image/files'" in messages[0]
        assert "own/checks/cpu/files.sh" in messages[0]
        assert "recipes/checks/files.py" in messages[0]
