"""Logs that cannot be read are not mistaken for a job that left none."""

import os
from pathlib import Path

import pytest

from lumicontainer.api import postmortem
from lumicontainer.errors import InputError


def test_a_folder_that_may_not_be_read_is_not_taken_for_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="there is no log"):
        postmortem(tmp_path)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(InputError, match=f"you may not read {tmp_path}"):
        postmortem(tmp_path)
