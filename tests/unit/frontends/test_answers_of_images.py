"""The output of an image's programs decides neither about files nor about code of the host."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lumicontainer.errors import InputError
from lumicontainer.frontends import kernel, module

IMAGE = Path("a.sif")


def answer(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    engine = SimpleNamespace(execute=lambda *_, **__: ["true"])
    for each in (kernel, module):
        monkeypatch.setattr(each, "find_engine", lambda: engine)
        monkeypatch.setattr(each.process, "capture", lambda *_, **__: text)


def metadata() -> Any:
    host: Any = SimpleNamespace(command=lambda _: ["true"], image=IMAGE)
    return kernel._metadata(host)


def test_a_module_has_links_for_known_programs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, "../../../../.bashrc\nlumi-entry\n/etc/x\nbash\npython3\npython3\nls\n")
    assert module._programs(IMAGE) == ("python3", "lumi-entry", "lumi-shell")


def test_a_kernel_has_the_metadata_that_ipykernel_states(monkeypatch: pytest.MonkeyPatch) -> None:
    stated = {"debugger": True, "supported_encryption": ["curve"]}
    code = {"kernel_provisioner": {"provisioner_name": "local-provisioner"}, "lumicontainer": "x"}
    answer(monkeypatch, json.dumps({**stated, **code}))
    assert metadata() == stated


@pytest.mark.parametrize("text", ["", "null", "[]", '{"debugger": "yes"}', '{"a": 1'])
def test_anything_else_is_no_kernel(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    answer(monkeypatch, text)
    with pytest.raises(InputError, match="the image has no Jupyter kernel"):
        metadata()
