"""Hooks of pre-commit run the commands of `make check`."""

import shlex

import yaml

from ...conftest import ROOT


def test_hooks_run_what_make_check_runs() -> None:
    makefile = (ROOT / "Makefile").read_text()
    target = makefile.partition("\ncheck:")[2].partition("\n\n")[0]
    commands = [line.strip().replace("$(BIN)", ".venv/bin") for line in target.splitlines()[1:]]
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    entries = [each["entry"] for each in repository["hooks"]]
    ran = [shlex.split(each)[-1] if each.startswith("bash -c ") else each for each in entries]
    assert ran == commands
