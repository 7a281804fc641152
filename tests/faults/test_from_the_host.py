"""Checks of the host find that an image is not what its recipe makes, or does not fit a host."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lumicontainer.cli import main
from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.plan.plan import planned
from lumicontainer.core.plan.records import resolved_record
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.image.inspect import KEY_LABEL
from lumicontainer.inside.verify.outcome import Outcome
from lumicontainer.verify import host_checks

from ..conftest import HELLO, Write
from ..unit.host.test_binds import Site, site
from ..unit.verify.test_inspect import packed

__all__ = ["site"]

RECIPE, LAYER, SCRIPT = "hello.yaml", "layers/greet/layer.yaml", "layers/greet/install.sh"
FILES = {**HELLO, LAYER: f"{HELLO[LAYER]}environment: {{MODE: quiet}}\n"}

Judge = Callable[..., Outcome]


@pytest.fixture
def judged(resolved: Callable[..., Resolved], write: Write, tmp_path: Path) -> Judge:
    """Judge an image by its recipe, in whose file one text has changed since it was built."""

    def judge(file: str, old: str, new: str, *, has_key: bool = True) -> Outcome:
        built = resolved(FILES)
        labels = {KEY_LABEL: planned(built).steps[-1].key} if has_key else {}
        record = {"opt/lumicontainer/resolved.json": json.dumps(resolved_record(built))}
        record["opt/lumicontainer/checks.json"] = "[]"
        image = packed(tmp_path, record, {"data": {"attributes": {"labels": labels}}})
        assert old in FILES[file]
        catalog = open_catalog(write({file: FILES[file].replace(old, new)}))
        return host_checks.current(host_checks.Request(image, catalog, "hello"))

    return judge


@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        (
            *(LAYER, "integer, default: 1", "integer, default: 2"),
            "layers.greet.parameters.times: 1 in the image, 2 by the recipe",
        ),
        (LAYER, "quiet", "loud", 'layers.greet.environment.MODE: "quiet" in the image, "loud" by'),
        (SCRIPT, "echo", "printf %s", "a script or another file of a layer"),
        (RECIPE, "greet", "gret", "did you mean 'greet'?"),
    ],
)
def test_a_recipe_that_makes_another_image_is_named(
    judged: Judge, file: str, old: str, new: str, words: str
) -> None:
    outcome = judged(file, old, new)
    assert outcome.state == "failed"
    assert words in outcome.reason


def test_without_a_key_nothing_proves_that_an_image_is_what_its_recipe_makes(judged: Judge) -> None:
    outcome = judged(SCRIPT, "echo", "printf %s", has_key=False)
    assert outcome.state == "skipped"
    assert "without a key its scripts are not known" in outcome.reason


def test_a_summary_is_nothing_of_an_image(judged: Judge) -> None:
    assert judged(LAYER, "says hello", "says it").state == "passed"


def test_a_host_without_a_library_is_found_by_its_root(
    site: Site, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", f"{site.folder / 'tools'}:/usr/bin:/bin")
    image = site.image(host_libraries=[{"path": "/lib/libtop.so.1", "reason": "the driver's own"}])
    words = ["verify", str(image), "-k", "host/libraries", "--recipes", str(site.folder / "own")]
    words += ["--host-root", str(site.host.path), "--json"]
    assert main(words) == 0
    (site.host.path / "below/libbelow.so.1").unlink()
    capfd.readouterr()
    assert main(words) == 1
    (row,) = json.loads(capfd.readouterr().out)["checks"]
    assert "neither the host nor the image has libbelow.so.1" in row["reason"]
