"""Libraries of added packages fit the PyTorch of the image."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lumicontainer.errors import InputError
from lumicontainer.extending.facts import Facts
from lumicontainer.extending.install import installation


@pytest.mark.parametrize(("needed", "fits"), [("libtriton.so", True), ("libc10_cuda.so", False)])
def test_a_library_may_need_others_of_its_own_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, needed: str, fits: bool
) -> None:
    container: Any = SimpleNamespace(part=tmp_path.joinpath)
    torch: Any = SimpleNamespace(version="2.13.0+cpu")
    facts = Facts("3.11", {"torch": torch}, frozenset({"libc10.so"}))
    added = installation.Installation(container, facts)
    libraries = tmp_path / "tree/lib/python3.11/site-packages/triton/_C"
    libraries.mkdir(parents=True)
    for name in ("libtriton.so", "libproton.so"):
        (libraries / name).touch()
    monkeypatch.setattr(installation, "_linked", lambda _: ("libc10.so", needed))
    if fits:
        added.require_fitting_libraries(frozenset(), "")
    else:
        with pytest.raises(InputError, match="triton was compiled for another build of PyTorch"):
            added.require_fitting_libraries(frozenset(), "")
