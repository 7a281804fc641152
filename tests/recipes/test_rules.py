"""Each shipped rule holds where it should, and not where a step away all is well."""

from collections.abc import Mapping
from typing import NamedTuple

import pytest

from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.resolve.resolve import resolve
from lumicontainer.core.rules.conditions import Fact, Facts
from lumicontainer.core.rules.rules import ERROR, HOLDS, PASSED, UNKNOWN, Finding, Rule, judge

CATALOG = open_catalog()
RULES = CATALOG.rules()


class Case(NamedTuple):
    """Hold what is known of an image for which a rule holds, and of one for which it does not."""

    bad: Mapping[str, str]
    good: Mapping[str, str]


def changed(facts: Mapping[str, str], **changes: str | None) -> dict[str, str]:
    """Return facts with other values, and without those that are None; '_' stands for '-'."""
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in changes.items()}
    return {name: value for name, value in {**facts, **named}.items() if value is not None}


MONITOR = "environment.FI_MR_CACHE_MONITOR"
PROFILE_6 = {
    "driver": "6.3",
    "glibc": "2.39",
    "python": "3.12",
    "rocm": "6.4.4",
    "libfabric": "2.1",
    "rccl-plugin": "1.19.0",
    "rccl-plugin.plugin": "aws-ofi-nccl",
    "mpich": "4.3.2",
    "mpich.provider": "source",
    "slingshot": "12.0.1",
    "slingshot.provider": "source",
    MONITOR: "userfaultfd",
    "pytorch": "2.9.1+rocm6.4",
    "wheel.rocm": "6.4",
    "wheel.python": "3.12",
    "wheel.glibc": "2.28",
    "flash-attention": "465cb97",
    "flash-attention.commit": "465cb97",
    "flash-attention.provider": "ck",
    "horovod": "0.28.1",
    "apex": "1.9.0",
}
"""What goes together for ROCm 6.4.4."""
PROFILE_7 = {
    **PROFILE_6,
    "rocm": "7.0.2",
    "rccl-plugin": "1.20.0",
    "mpich": "5.0.1",
    "slingshot": "12.0.2",
    "pytorch": "2.10.0+rocm7.0",
    "wheel.rocm": "7.0",
    "flash-attention": "bbe25ba",
    "flash-attention.commit": "bbe25ba",
    "apex": "1.10.0",
}
"""What goes together for ROCm 7.0.2."""
SIX_WITH_RCCL_PLUGIN = {
    **PROFILE_6,
    "rccl-plugin": "1.4.0-1",
    "rccl-plugin.plugin": "aws-ofi-rccl",
}
TRITON = {**PROFILE_6, "flash-attention.provider": "triton"}

CASES = {
    "rocm-below-driver": Case(changed(PROFILE_6, rocm="6.0.3"), changed(PROFILE_6, rocm="6.1.0")),
    "rocm-above-driver": Case(changed(PROFILE_7, rocm="7.1.0"), PROFILE_7),
    "driver-without-window": Case(changed(PROFILE_6, driver="6.8"), PROFILE_6),
    "rocm-7-aws-ofi-rccl": Case(
        changed(PROFILE_7, rccl_plugin="1.4.0-1", rccl_plugin__plugin="aws-ofi-rccl"),
        SIX_WITH_RCCL_PLUGIN,
    ),
    "rocm-7-aws-ofi-nccl": Case(changed(PROFILE_7, rccl_plugin="1.19.0"), PROFILE_7),
    "aws-ofi-nccl-without-rocm": Case(
        changed(PROFILE_6, rccl_plugin="1.17.2"), changed(PROFILE_6, rccl_plugin="v1.18.0")
    ),
    "aws-ofi-nccl-dma-buf": Case(changed(PROFILE_6, rccl_plugin="1.18.0"), PROFILE_6),
    "aws-ofi-nccl-libfabric": Case(
        changed(PROFILE_6, libfabric="1.17.1"), changed(PROFILE_6, libfabric="1.18.0")
    ),
    "aws-ofi-rccl-libfabric": Case(
        changed(SIX_WITH_RCCL_PLUGIN, libfabric="1.22.0"),
        changed(SIX_WITH_RCCL_PLUGIN, libfabric="1.21.1"),
    ),
    "aws-ofi-rccl-given-up": Case(SIX_WITH_RCCL_PLUGIN, PROFILE_6),
    "plugin-of-other-version": Case(
        changed(PROFILE_6, rccl_plugin__plugin="aws-ofi-rccl"), SIX_WITH_RCCL_PLUGIN
    ),
    "rocm-7-gdr-level": Case(
        {**PROFILE_7, "environment.NCCL_NET_GDR_LEVEL": "PHB"},
        {**PROFILE_6, "environment.NCCL_NET_GDR_LEVEL": "PHB"},
    ),
    "rocm-7.2-net-plugin": Case(
        changed(PROFILE_7, rocm="7.2.0"),
        {**changed(PROFILE_7, rocm="7.2.0"), "environment.NCCL_NET_PLUGIN": "librccl-net.so"},
    ),
    "rocm-7-cray-mpich": Case(
        changed(PROFILE_7, mpich__provider="host"), changed(PROFILE_6, mpich__provider="host")
    ),
    "cray-mpich-host-memory": Case(
        changed(PROFILE_6, mpich__provider="host"),
        {
            **changed(PROFILE_6, mpich__provider="host"),
            "environment.MPICH_GPU_SUPPORT_ENABLED": "1",
        },
    ),
    "cray-mpich-glibc": Case(
        changed(PROFILE_6, mpich__provider="host", glibc="2.37"),
        changed(PROFILE_6, mpich__provider="host", glibc="2.38"),
    ),
    "host-slingshot-glibc": Case(
        changed(PROFILE_6, slingshot__provider="host", glibc="2.37"),
        changed(PROFILE_6, slingshot__provider="host", glibc="2.38"),
    ),
    "wheel-of-other-rocm": Case(changed(PROFILE_7, wheel__rocm="6.4"), PROFILE_7),
    "wheel-of-other-python": Case(changed(PROFILE_6, python="3.11"), PROFILE_6),
    "wheel-above-glibc": Case(changed(PROFILE_6, glibc="2.27"), changed(PROFILE_6, glibc="2.28")),
    "torch-with-rccl-of-its-own": Case(
        {**changed(PROFILE_6, pytorch=None), "package.torch": "2.9.1+rocm6.4"},
        {**PROFILE_6, "package.torch": "2.9.1+rocm6.4"},
    ),
    "torch-nan-rocm-6.2": Case(
        changed(PROFILE_6, rocm="6.2.4", pytorch="2.7.0+rocm6.2.4"),
        changed(PROFILE_6, rocm="6.2.4", pytorch="2.7.1+rocm6.2.4"),
    ),
    "rocm-6.4-fp16": Case(PROFILE_6, PROFILE_7),
    "libfabric-memhooks": Case(
        {name: value for name, value in PROFILE_7.items() if name != MONITOR}, PROFILE_7
    ),
    "horovod-cxx20": Case(
        {"horovod": "0.28.1", "pytorch": "2.14.0"}, {"horovod": "0.28.1", "pytorch": "2.13.0"}
    ),
    "horovod-rocm-torch": Case(
        changed(PROFILE_7, pytorch="2.12.0+rocm7.0"),
        changed(PROFILE_7, pytorch="2.12.0", rocm=None),
    ),
    "horovod-hipify": Case(changed(PROFILE_7, pytorch="2.11.0+rocm7.0"), PROFILE_7),
    "horovod-without-cxx17": Case({**PROFILE_6, "package.horovod": "0.28.1"}, PROFILE_6),
    "apex-1.9-torch": Case(changed(PROFILE_6, pytorch="2.10.0+rocm6.4"), PROFILE_6),
    "apex-1.10-torch": Case(changed(PROFILE_7, pytorch="2.9.1+rocm7.0"), PROFILE_7),
    "flash-attention-rocm-5": Case(
        changed(PROFILE_6, rocm="5.7.3"), changed(PROFILE_6, rocm="6.0.0")
    ),
    "flash-attention-gfx942": Case(changed(PROFILE_6, rocm="6.3.1"), PROFILE_6),
    "flash-attention-after-aiter": Case(
        changed(TRITON, flash_attention__commit="3f94643fb41bcedded28c85185a8e11d42ef1592"),
        changed(TRITON, flash_attention__commit="bbe25bacff9f337568b66e69950e549df9839068"),
    ),
    "flash-attention-other-commit": Case(
        changed(PROFILE_6, flash_attention__commit="0251105a2fb19d2957484b7f023cd8c115286ced"),
        PROFILE_6,
    ),
    "flash-attention-triton-3.5": Case(
        {**PROFILE_7, "flash-attention.provider": "triton"},
        changed(TRITON, flash_attention__commit="bbe25ba"),
    ),
    "flash-attention-triton-3.2": Case(
        changed(TRITON, pytorch="2.7.0"), changed(TRITON, pytorch="2.6.0+rocm6.2.4")
    ),
    "flash-attention-backend-variable": Case(
        {**PROFILE_6, "environment.FLASH_ATTENTION_TRITON_AMD_ENABLE": "TRUE"},
        {**TRITON, "environment.FLASH_ATTENTION_TRITON_AMD_ENABLE": "TRUE"},
    ),
}

SEVEN = changed(PROFILE_7, rocm="7.0.0")
OLD_TORCH = changed(PROFILE_6, rocm="6.2.0")
HOROVOD = {**PROFILE_6, "package.horovod": "0.28.1"}
EDGES = [
    ("rocm-7-aws-ofi-rccl", changed(SEVEN, rccl_plugin__plugin="aws-ofi-rccl"), HOLDS),
    ("rocm-7-aws-ofi-nccl", changed(SEVEN, rccl_plugin="1.18.0"), HOLDS),
    ("rocm-7-aws-ofi-nccl", changed(SEVEN, rccl_plugin="1.17.2"), PASSED),
    ("rocm-7-aws-ofi-nccl", PROFILE_6, PASSED),
    ("aws-ofi-nccl-dma-buf", changed(PROFILE_6, rccl_plugin="1.17.2"), PASSED),
    (
        "plugin-of-other-version",
        changed(PROFILE_6, rccl_plugin="1.18.0", rccl_plugin__plugin="aws-ofi-rccl"),
        HOLDS,
    ),
    ("rocm-7-gdr-level", {**SEVEN, "environment.NCCL_NET_GDR_LEVEL": "3"}, HOLDS),
    ("rocm-7-gdr-level", {**SEVEN, "environment.NCCL_NET_GDR_LEVEL": "SYS"}, HOLDS),
    ("rocm-7.2-net-plugin", changed(PROFILE_7, rocm="7.1.1"), PASSED),
    ("rocm-7-cray-mpich", changed(SEVEN, mpich__provider="host"), HOLDS),
    ("torch-nan-rocm-6.2", changed(OLD_TORCH, pytorch="2.6.0"), HOLDS),
    ("torch-nan-rocm-6.2", changed(OLD_TORCH, pytorch="2.5.1"), PASSED),
    ("horovod-rocm-torch", changed(PROFILE_7, pytorch="2.13.1"), HOLDS),
    ("horovod-rocm-torch", changed(PROFILE_7, pytorch="2.11.0"), PASSED),
    ("horovod-rocm-torch", changed(PROFILE_7, pytorch="2.14.0"), PASSED),
    ("horovod-without-cxx17", changed(HOROVOD, pytorch="2.1.0"), HOLDS),
    ("horovod-without-cxx17", changed(HOROVOD, pytorch="2.0.1"), PASSED),
    ("horovod-without-cxx17", {**HOROVOD, "package.horovod": "0.28.2"}, PASSED),
]
"""The edges of ranges that no case stands at."""


def as_facts(values: Mapping[str, str]) -> Facts:
    return {name: (Fact(value),) for name, value in values.items()}


def state(rule: Rule, values: Mapping[str, str]) -> str:
    (finding,) = judge([rule], as_facts(values))
    return finding.state


def test_every_rule_has_a_case_in_which_it_holds_and_one_in_which_it_does_not() -> None:
    assert set(CASES) == set(RULES)


@pytest.mark.parametrize("name", CASES)
def test_a_rule_holds_for_what_is_bad(name: str) -> None:
    assert state(RULES[name], CASES[name].bad) == HOLDS


@pytest.mark.parametrize("name", CASES)
def test_a_rule_does_not_hold_for_what_is_good(name: str) -> None:
    assert state(RULES[name], CASES[name].good) == PASSED


@pytest.mark.parametrize(("name", "facts", "expected"), EDGES)
def test_a_range_begins_and_ends_where_it_should(
    name: str, facts: Mapping[str, str], expected: str
) -> None:
    assert state(RULES[name], facts) == expected


@pytest.mark.parametrize("name", CASES)
def test_a_rule_needs_each_of_its_conditions(name: str) -> None:
    for fact in RULES[name].when:
        without = {key: value for key, value in CASES[name].bad.items() if key != fact}
        if len(without) < len(CASES[name].bad):
            assert state(RULES[name], without) in (PASSED, UNKNOWN), fact


@pytest.mark.parametrize(
    ("profile", "expected"),
    [(PROFILE_6, {"rocm-6.4-fp16"}), (PROFILE_7, set())],
    ids=["rocm-6.4.4", "rocm-7.0.2"],
)
def test_what_goes_together_is_warned_of_only_where_no_choice_is_better(
    profile: Mapping[str, str], expected: set[str]
) -> None:
    found = {
        each.rule.id for each in judge(RULES.values(), as_facts(profile)) if each.state == HOLDS
    }
    assert found == expected
    assert {RULES[name].level for name in found} <= {"warning"}


def judged(recipe: str, profile: str, *options: str) -> list[Finding]:
    return list(resolve(CATALOG.materials(recipe, "lumi-g", profile), options).findings)


@pytest.mark.parametrize(
    ("recipe", "profile"),
    [(name, each) for name in CATALOG.names("recipe") for each in CATALOG.recipe(name).profiles],
)
def test_no_shipped_set_of_versions_is_known_to_be_bad_on_lumi_g(recipe: str, profile: str) -> None:
    found = judged(recipe, profile)
    assert [each.rule.id for each in found if (each.state, each.rule.level) == (HOLDS, ERROR)] == []
    assert [each.rule.id for each in found if each.state == UNKNOWN] == []


@pytest.mark.parametrize(
    ("profile", "options", "expected"),
    [
        ("rocm-7.0.2", ["rccl-plugin.version=1.19.0"], {"rocm-7-aws-ofi-nccl"}),
        ("rocm-6.4.4", ["rccl-plugin.version=1.18.0"], {"aws-ofi-nccl-dma-buf"}),
        (
            "rocm-6.4.4",
            ["rccl-plugin.plugin=aws-ofi-rccl", "rccl-plugin.version=1.4.0-1"],
            {"aws-ofi-rccl-libfabric", "aws-ofi-rccl-given-up"},
        ),
        ("rocm-6.4.4", ["mpich.provider=host"], {"cray-mpich-host-memory"}),
        (
            "rocm-7.0.2",
            ["mpich.provider=host", "mpich.version=4.3.2"],
            {"rocm-7-cray-mpich"},
        ),
    ],
)
def test_a_mixture_of_the_shipped_layers_is_known_for_what_it_is(
    profile: str, options: list[str], expected: set[str]
) -> None:
    found = judged("rocm", profile, *options)
    assert {each.rule.id for each in found if each.state == HOLDS} == expected


@pytest.mark.parametrize("name", RULES)
def test_a_rule_states_problem_reason_source_and_hint(name: str) -> None:
    rule = RULES[name]
    texts = (rule.message, rule.reason, rule.source, rule.hint)
    assert all(len(text) > 5 and not text.endswith(".") for text in texts)
    assert len(set(texts)) == len(texts)
