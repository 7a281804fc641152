"""Measurements of checks are drawn to scale; other values are left out."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumicontainer.verify import pictures

MEASURED = {
    "title": "all_reduce",
    "unit": "GB/s",
    "series": [{"name": "a", "points": [[1 << 20, 50], [1 << 10, 10], [1 << 30, 100]]}],
    "references": [{"name": "a guide", "value": 125, "source": "its page"}],
}


def chart(measured: Any) -> pictures.Chart:
    (picture,) = pictures.charts({"bandwidth": measured})
    return picture


def test_points_are_in_order_on_a_scale_of_powers_of_two() -> None:
    (line,) = chart(MEASURED).lines
    xs = [x for x, _, _ in line.points]
    assert xs == [pictures.LEFT, sum((xs[0], xs[2])) / 2, pictures.WIDTH - pictures.RIGHT]
    said = [text for *_, text in line.points]
    assert said == ["1.0 KiB: 10 GB/s", "1.0 MiB: 50 GB/s", "1.0 GiB: 100 GB/s"]


def test_a_reference_lies_where_its_value_would() -> None:
    picture = chart(MEASURED)
    (reference,) = picture.references
    ticks = {tick.text: tick.at for tick in picture.up}
    assert list(ticks) == ["0", "20", "40", "60", "80", "100", "120", "140"]
    assert ticks["140"] == pictures.TOP < reference.at < ticks["120"]
    assert (ticks["120"] - reference.at) / (ticks["120"] - ticks["140"]) == pytest.approx(0.25)
    assert (reference.text, picture.sources) == ("a guide 125", ("its page",))


def test_several_pictures_of_a_check_are_each_drawn() -> None:
    other = {**MEASURED, "title": "other"}
    assert len(list(pictures.charts({"bandwidth": [MEASURED, other]}))) == 2


@pytest.mark.parametrize(
    "measured",
    [
        None,
        "fast",
        {},
        {"series": []},
        {"series": [{"name": "a", "points": []}]},
        *(
            {"series": [{"name": "a", "points": [point]}]}
            for point in ([0, 1], ["x", 1], [1, 0], [1, float("inf")], [1, float("nan")])
        ),
        {**MEASURED, "references": [{"name": "no value"}]},
    ],
)
def test_what_is_no_measurement_makes_no_picture(measured: Any) -> None:
    assert list(pictures.charts({"bandwidth": measured})) == []


@given(st.lists(st.tuples(st.integers(1, 1 << 40), st.floats(1e-3, 1e6)), min_size=1, max_size=40))
def test_every_point_and_mark_lies_within_the_picture(points: list[tuple[int, float]]) -> None:
    picture = chart({"series": [{"name": "a", "points": points}]})
    for x, y, _ in picture.lines[0].points:
        assert pictures.LEFT <= x <= pictures.WIDTH - pictures.RIGHT + 1e-6
        assert pictures.TOP - 1e-6 <= y <= pictures.HEIGHT - pictures.BOTTOM
    assert 2 <= len(picture.up) <= 9
    assert len(picture.across) <= 8


def test_ranks_are_grouped_by_node_and_coloured_by_numa_node() -> None:
    rows = [
        {"rank": 1, "host": "a", "gcd": 1, "pci": "0000:c6:00.0", "numa": 3, "nic": "hsn0"},
        {"rank": 0, "host": "a", "gcd": 0, "pci": "0000:c1:00.0", "ccd": 6, "cores": "49-55"}
        | {"numa": 3},
        {"rank": 2, "host": "b", "numa": 0},
    ]
    (one, (first, second)), (other, (third,)) = pictures.nodes({"ranks": rows})
    assert (one, other) == ("a", "b")
    assert first == (0, ["rank 0", "GCD 0 0000:c1:00.0", "CCD 6 cores 49-55", "NUMA node 3"])
    assert second == (0, ["rank 1", "GCD 1 0000:c6:00.0", "NUMA node 3", "NIC hsn0"])
    assert third == (0, ["rank 2", "NUMA node 0"])
