"""The states that failed builds left."""

from pathlib import Path

import pytest

from lumicontainer.api.failed_builds import require_failed_build
from lumicontainer.errors import InputError


@pytest.mark.parametrize("recipe", [None, "other"])
def test_a_state_that_is_not_kept_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recipe: str | None
) -> None:
    monkeypatch.setenv("LUMICONTAINER_TMPDIR", str(tmp_path))
    with pytest.raises(InputError):
        require_failed_build(recipe)
