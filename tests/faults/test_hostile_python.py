"""The Python of an image prints anything, without end: no command believes it, or fills memory."""

import subprocess
from pathlib import Path

import pytest

from lumicontainer.errors import HOST_UNFIT, INPUT_WRONG, STEP_FAILED

from ..integration.conftest import lumicontainer, recipes, small, write_small

__all__ = ["recipes", "small"]


def build(
    folder: Path, prints: str, *words: object, code: int, program: str = "lumi-verify"
) -> subprocess.CompletedProcess[str]:
    """Build an image whose Python runs a command of the shell in place of what it is asked."""
    verifies = f'case "$*" in *{program}*) {prints}; exit ;; esac'
    script = f'#!/bin/sh\n{verifies}\nexec python3.11 "$@"\n'
    install = (
        "set -euo pipefail\nmkdir /opt/greet\necho x >/opt/greet/greeting\nrm /usr/bin/python3\n"
        f"cat >/usr/bin/python3 <<'END'\n{script}END\nchmod 755 /usr/bin/python3\n"
    )
    own = write_small(folder / "own", {"layers/greet/install.sh": install})
    options = ("--recipes", own, "--output", folder / "x.sif")
    return lumicontainer("build", "small", *options, *words, code=code)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("prints", ["echo []", "echo '{\"checks\": []}'"])
def test_a_build_takes_no_answer_for_a_report(tmp_path: Path, prints: str) -> None:
    done = build(tmp_path, prints, code=1)
    assert "error: cannot check the image\n    why: lumi-verify printed no report" in done.stderr
    assert not (tmp_path / "x.sif").exists()


@pytest.mark.usefixtures("small")
def test_a_build_takes_no_answer_for_a_list_of_packages(tmp_path: Path) -> None:
    done = build(tmp_path, "echo nonsense", "--no-verify", code=STEP_FAILED, program="inventory")
    assert "error: python3 of the image did not list its packages" in done.stderr
    assert not (tmp_path / "x.sif").exists()


@pytest.mark.usefixtures("small")
def test_a_report_without_end_fills_neither_memory_nor_disk(tmp_path: Path) -> None:
    build(tmp_path, "exec cat /dev/zero", "--no-verify", code=0)
    done = lumicontainer("verify", tmp_path / "x.sif", code=1)
    assert "it printed more than 67108864 bytes" in done.stdout


LIES = {
    "no end": ("exec cat /dev/zero", HOST_UNFIT, "it printed more than 67108864 bytes"),
    "other JSON": ("echo '{\"python\": [1]}'", INPUT_WRONG, "does not list its packages"),
    "a terminal": ("printf '\\033[2J'; exit 3", HOST_UNFIT, "failed (exit code 3)"),
}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("lie", LIES)
def test_an_extension_does_not_believe_the_python_of_its_image(tmp_path: Path, lie: str) -> None:
    prints, code, why = LIES[lie]
    build(tmp_path, prints, "--no-verify", code=0, program="image.facts")
    image = tmp_path / "x.sif"
    done = lumicontainer("extend", image, "rich", "--output", tmp_path / "more.sqsh", code=code)
    assert why in done.stderr
    assert "\x1b" not in done.stderr
    assert not (tmp_path / "more.sqsh").exists()
    lumicontainer("inspect", image, code=0)
