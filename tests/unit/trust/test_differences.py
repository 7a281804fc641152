"""Two sides are compared section by section, in what both of them say."""

from collections.abc import Callable

from lumicontainer.core.lock import LockEntry, lock_with
from lumicontainer.core.plan.records import resolved_record
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.trust import differences
from lumicontainer.trust.differences import Change, Side, compare_sides

HASH = "ab" * 32


def changes(one: object, other: object, section: str = "layers") -> list[Change]:
    sides = (Side("a", {section: {"x": one}}), Side("b", {section: {"x": other}}))
    return [*compare_sides(*sides).sections.get(section, ())]


def test_equal_sides_have_no_differences() -> None:
    side = Side("a", {"layers": {"x": {"version": "1", "bytes": 5}}})
    assert compare_sides(side, side).sections == {}


def test_a_change_names_what_was_before_and_what_is_after() -> None:
    one = Side("a", {"variables": {"KEPT": "1", "GONE": "", "OTHER": "a"}})
    other = Side("b", {"variables": {"KEPT": "1", "NEW": "2", "OTHER": "b"}})
    assert compare_sides(one, other).sections == {
        "variables": [Change("GONE", "", None), Change("NEW", None, "2"), Change("OTHER", "a", "b")]
    }


def test_layers_are_compared_in_what_both_sides_know() -> None:
    assert changes({"version": "1", "bytes": 5}, {"version": "1"}) == []
    assert len(changes({"version": "1", "key": "a"}, {"version": "1", "key": "b"})) == 1


def test_what_one_side_does_not_say_is_named_and_not_compared() -> None:
    differences = compare_sides(
        Side("a", {"rules": {"x": "bad"}, "binds": {}}), Side("b", {"binds": {}})
    )
    assert (differences.sections, differences.unknown) == ({}, ["rules"])


def test_the_record_of_an_image_has_parameters_variables_and_binds(
    resolved: Callable[..., Resolved],
) -> None:
    layer = (
        "summary: x\nparameters: {loud: {type: boolean, default: true}}\n"
        "environment: {A: b}\npath: [/opt/x/bin]\nprepend: {LD_LIBRARY_PATH: [/opt/x/lib]}\n"
        "packages: {apt: [curl=7.88]}\n"
        "binds: [{path: /opt/cray, reason: the network of the host, source: its makers}]\n"
    )
    record = resolved_record(resolved({"layers/greet/layer.yaml": layer}))
    sections = differences.sections_of_record(record)
    assert sections["parameters"] == {"greet.loud": "true"}
    assert sections["variables"] == {
        "A": "b",
        "LD_LIBRARY_PATH": "/opt/x/lib",
        "PATH": "/opt/x/bin",
    }
    assert sections["binds"] == {"/opt/cray": "the network of the host"}
    assert differences.stated_packages(record)["system packages"] == {"curl": "7.88"}


def test_a_lock_has_the_versions_of_packages_and_the_pins_of_sources(
    resolved: Callable[..., Resolved],
) -> None:
    entries = [
        LockEntry("apt", "curl", pin=f"curl=7.88.1-10 --hash=sha256:{HASH}"),
        LockEntry("python", "six", pin=f"six==1.17.0 --hash=sha256:{HASH}"),
        LockEntry("python", "wheel", pin=f"wheel==1 --hash=sha256:{HASH}", builds="six"),
        LockEntry("git", "https://example.org/a", "a", pin="cd" * 20),
    ]
    side = differences.side_of_lock("x", lock_with(resolved(), {"greet": entries}))
    assert side.sections == {
        "system packages": {"curl": "7.88.1-10"},
        "Python packages": {"six": "1.17.0"},
        "sources": {"https://example.org/a a": "cd" * 20},
    }
