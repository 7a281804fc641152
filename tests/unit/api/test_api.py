"""The interface in Python as a package."""

import inspect
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lumicontainer import api
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.errors import InputError

from ...conftest import HELLO as HELLO_FILES
from ...conftest import ROOT
from ...programs import run
from ..verify.test_inspect import HELLO, made

CALL = re.compile(r"\b(?<!api\.)(\w+)\(")


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("call", [api.checks, api.verify])
def test_an_unknown_level_is_refused(tmp_path: Path, call: Callable[..., object]) -> None:
    with pytest.raises(InputError, match="invalid level 'bogus'"):
        call(made(tmp_path, json.dumps(HELLO)), level="bogus")


@pytest.mark.parametrize(
    "request_of",
    [
        lambda recipe: api.CheckRequest(recipe, platform="lumi-g"),
        lambda recipe: api.CheckRequest(recipe, values=["greet.name=x"]),
        lambda recipe: api.BuildRequest(recipe, locked=True, dry_run=True),
    ],
)
def test_a_resolved_recipe_takes_no_other_values(
    resolved: Callable[..., Resolved], request_of: Callable[[Resolved], object]
) -> None:
    request = request_of(resolved(HELLO_FILES))
    function = api.check if isinstance(request, api.CheckRequest) else api.run_build
    with pytest.raises(InputError, match="all values of 'hello' are decided"):
        function(request)  # type: ignore[operator]


def test_a_resolved_recipe_can_be_shown(resolved: Callable[..., Resolved]) -> None:
    shown = api.show(api.ShowRequest(resolved(HELLO_FILES)))
    assert isinstance(shown, api.ShownRecipe)


def test_objects_of_others_are_in_a_shared_cache_only() -> None:
    with pytest.raises(InputError):
        api.prune_cache(api.PruneRequest(others=True, dry_run=True))


def test_an_age_of_no_days_removes_what_is_older_than_now() -> None:
    assert api.PruneRequest(max_age=0).oldest() > 0
    assert api.PruneRequest().oldest() == 0
