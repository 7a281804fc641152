"""An image that no check saw is said to be one."""

import asyncio
from pathlib import Path
from unittest.mock import AsyncMock, Mock

import pytest

from lumicontainer.building import pipeline


def test_the_command_that_checks_a_new_image_can_be_pasted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("assemble", "_pack"):
        monkeypatch.setattr(pipeline, name, AsyncMock())
    for name in ("sync", "replace", "_require_packages"):
        monkeypatch.setattr(pipeline, name, Mock())
    builder, output = (
        Mock(**{"plan.steps": [], "cached.return_value": [], "job": None}),
        tmp_path / "my x.sif",
    )
    asyncio.run(pipeline._build(builder, output, verify=False, more=0))
    said = f"not checked: lumicontainer verify '{output}' does that"
    builder.progress.say.assert_called_once_with(said)
