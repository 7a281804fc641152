"""The interface in Python as a package."""

import inspect
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lumicontainer import api
from lumicontainer.errors import InputError

from ...conftest import ROOT
from ...programs import run
from ..verify.test_inspect import HELLO, made

CALL = re.compile(r"\b(?<!api\.)(\w+)\(")


def test_importing_it_imports_no_package_that_few_calls_need() -> None:
    program = "import sys\nfrom lumicontainer import api\nprint(*sys.modules)"
    imported = {*run([sys.executable, "-c", program]).stdout.split()}
    assert "lumicontainer.api" in imported
    assert not {"spython", "docker", "rich", "jinja2", "uv", "yaml"} & imported


def test_each_name_that_it_lists_is_there_and_documented() -> None:
    for name in api.__all__:
        assert getattr(api, name).__doc__ or name == "OnProgress", name


def test_the_manual_names_each_function_and_no_other() -> None:
    page = (ROOT / "docs/api.md").read_text()
    table = page.partition("## A function for each verb")[2].partition("\n## ")[0]
    listed = {name for row in re.findall(r"(?m)^\| .*", table) for name in CALL.findall(row)}
    functions = {name for name in api.__all__ if inspect.isfunction(getattr(api, name))}
    short = {"build", "checks", "inspect", "resolve", "run", "verify"}
    assert {name for name in listed if name[0].islower()} - {"as_data"} == functions - short
    assert {name for name in listed if name[0].isupper()} <= {*api.__all__}


@pytest.mark.parametrize("call", [api.checks, api.verify])
def test_a_level_that_is_none_is_refused(tmp_path: Path, call: Callable[..., object]) -> None:
    with pytest.raises(InputError, match="invalid level 'bogus'"):
        call(made(tmp_path, json.dumps(HELLO)), level="bogus")
