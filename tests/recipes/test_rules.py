"""Each shipped rule holds for its fault, and not for a good combination one step away."""

from collections.abc import Mapping
from functools import partial

import pytest

from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.resolve.facts import facts_of
from lumicontainer.core.resolve.resolve import resolve
from lumicontainer.core.rules.conditions import Fact, Facts
from lumicontainer.core.rules.rules import HOLDS, PASSED, UNKNOWN, Finding, Rule, judge

CATALOG = open_catalog()
RULES = CATALOG.rules()
Values = Mapping[str, str]


def changed(
    values: Values, other: Mapping[str, str | None] | None = None, **changes: str | None
) -> Values:
    """Return facts with other values, and without those that are None; '_' stands for '-'."""
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in changes.items()}
    every = {**values, **(other or {}), **named}
    return {name: value for name, value in every.items() if value is not None}


def shipped(profile: str) -> Values:
    """Return what is known of the shipped image with the most layers, and of a Horovod in it."""
    facts_by_name = facts_of(resolve(CATALOG.materials("megatron-deepspeed", "lumi-g", profile)))
    return {"horovod": "0.28.1", **{name: facts[0].value for name, facts in facts_by_name.items()}}


PROFILE_6, PROFILE_7 = shipped("rocm-6.4.4"), shipped("rocm-7.0.2")
MONITOR = "environment.FI_MR_CACHE_MONITOR"
six, seven = partial(changed, PROFILE_6), partial(changed, PROFILE_7)
with_host_mpich = partial(six, mpich__provider="host")
with_host_slingshot = partial(six, slingshot__provider="host")
with_aws_ofi_rccl = partial(six, rccl_plugin="1.4.0-1", rccl_plugin__plugin="aws-ofi-rccl")
with_triton = partial(six, flash_attention__provider="triton")
with_rocm_6_2 = partial(six, rocm="6.2.4")
with_rocm_7_0_0 = partial(seven, rocm="7.0.0")
with_rocm_7_2 = partial(seven, rocm="7.2.0")
with_horovod = partial(six, {"package.horovod": "0.28.1"})
with_package_torch = partial(six, {"package.torch": "2.9.1+rocm6.4"})
GPU_SUPPORT = {"environment.MPICH_GPU_SUPPORT_ENABLED": "1"}
NET_PLUGIN = {"environment.NCCL_NET_PLUGIN": "librccl-net.so"}
PROTOCOL = {"environment.OFI_NCCL_PROTOCOL": "RDMA"}
TRITON_VARIABLE = {"environment.FLASH_ATTENTION_TRITON_AMD_ENABLE": "TRUE"}
AFTER_AITER = "3f94643fb41bcedded28c85185a8e11d42ef1592"
BEFORE_AITER = "bbe25bacff9f337568b66e69950e549df9839068"
OTHER_COMMIT = "0251105a2fb19d2957484b7f023cd8c115286ced"


def gdr_level(level: str) -> Values:
    return {"environment.NCCL_NET_GDR_LEVEL": level}


def variable(name: str) -> Values:
    return {f"environment.{name}": "0"}


with_deepspeed_0_19_8 = partial(six, {"deepspeed.DS_BUILD_AIO": "true"}, deepspeed="0.19.8")
PIN_MEMORY = "deepspeed.DS_BUILD_PIN_MEMORY"
CASES = {
    "rocm-below-driver": (six(rocm="6.0.3"), six(rocm="6.1.0")),
    "rocm-above-driver": (seven(rocm="7.1.0"), seven()),
    "jax-below-rocm-7": (six(jax="0.6.0"), seven(jax="0.6.0")),
    "driver-without-window": (six(driver="6.8"), six()),
    "rocm-7-aws-ofi-rccl": (with_aws_ofi_rccl(PROFILE_7), with_aws_ofi_rccl()),
    "rocm-7-aws-ofi-nccl": (seven(rccl_plugin="1.19.0"), seven()),
    "aws-ofi-nccl-without-rocm": (six(rccl_plugin="1.17.2"), six(rccl_plugin="v1.18.0")),
    "deepspeed-pin-memory": (
        with_deepspeed_0_19_8(),
        changed(with_deepspeed_0_19_8(), {PIN_MEMORY: "true"}),
    ),
    "deepspeed-without-pin-memory": (six({PIN_MEMORY: "true"}), six()),
    "aws-ofi-nccl-dma-buf": (six(rccl_plugin="1.18.0"), six()),
    "aws-ofi-nccl-libfabric": (six(libfabric="1.17.1"), six(libfabric="1.18.0")),
    "aws-ofi-rccl-libfabric": (
        with_aws_ofi_rccl(libfabric="1.22.0"),
        with_aws_ofi_rccl(libfabric="1.21.1"),
    ),
    "aws-ofi-rccl-given-up": (with_aws_ofi_rccl(), six()),
    "plugin-of-other-version": (six(rccl_plugin__plugin="aws-ofi-rccl"), with_aws_ofi_rccl()),
    "rocm-7-gdr-level": (seven(gdr_level("PHB")), six(gdr_level("PHB"))),
    "aws-ofi-nccl-connections": (seven(), six()),
    "ofi-nccl-protocol-libfabric": (six(PROTOCOL), six(PROTOCOL, libfabric="2.6.0")),
    "ofi-nccl-protocol-plugin": (six(PROTOCOL), seven(PROTOCOL)),
    "rocm-7.2-net-plugin": (with_rocm_7_2(), with_rocm_7_2(NET_PLUGIN)),
    "rocm-7-cray-mpich": (seven(mpich__provider="host"), with_host_mpich()),
    "cray-mpich-host-memory": (with_host_mpich(), with_host_mpich(GPU_SUPPORT)),
    "cray-mpich-glibc": (with_host_mpich(glibc="2.37"), with_host_mpich(glibc="2.38")),
    "host-slingshot-glibc": (with_host_slingshot(glibc="2.37"), with_host_slingshot(glibc="2.38")),
    "wheel-of-other-rocm": (seven(wheel__rocm="6.4"), seven()),
    "wheel-of-other-python": (six(python="3.11"), six()),
    "wheel-above-glibc": (six(glibc="2.27"), six(glibc="2.28")),
    "torch-with-rccl-of-its-own": (with_package_torch(pytorch=None), with_package_torch()),
    "torch-nan-rocm-6.2": (
        with_rocm_6_2(pytorch="2.7.0+rocm6.2.4"),
        with_rocm_6_2(pytorch="2.7.1+rocm6.2.4"),
    ),
    "rocm-6.4-fp16": (six(), seven()),
    "libfabric-memhooks": (seven({MONITOR: None}), seven()),
    "horovod-cxx20": (seven(rocm=None, pytorch="2.14.0"), seven(rocm=None, pytorch="2.13.0")),
    "horovod-rocm-torch": (seven(pytorch="2.12.0+rocm7.0"), seven(pytorch="2.12.0", rocm=None)),
    "horovod-hipify": (seven(pytorch="2.11.0+rocm7.0"), seven()),
    "horovod-without-cxx17": (with_horovod(), six()),
    "apex-1.9-torch": (six(pytorch="2.10.0+rocm6.4"), six()),
    "apex-1.10-torch": (seven(pytorch="2.9.1+rocm7.0"), seven()),
    "flash-attention-rocm-5": (six(rocm="5.7.3"), six(rocm="6.0.0")),
    "flash-attention-gfx942": (six(rocm="6.3.1"), six()),
    "flash-attention-after-aiter": (
        with_triton(flash_attention__commit=AFTER_AITER),
        with_triton(flash_attention__commit=BEFORE_AITER),
    ),
    "flash-attention-other-commit": (six(flash_attention__commit=OTHER_COMMIT), six()),
    "flash-attention-triton-3.5": (
        with_triton(PROFILE_7),
        with_triton(flash_attention__commit="bbe25ba"),
    ),
    "flash-attention-triton-3.2": (
        with_triton(pytorch="2.7.0"),
        with_triton(pytorch="2.6.0+rocm6.2.4"),
    ),
    "flash-attention-backend-variable": (six(TRITON_VARIABLE), with_triton(TRITON_VARIABLE)),
    "image-chooses-gpus": (six(variable("HIP_VISIBLE_DEVICES")), six()),
    "image-has-a-rank": (six(variable("RANK")), six(variable("RANKS"))),
    "image-names-an-interface": (six(variable("NCCL_SOCKET_IFNAME")), six()),
    "image-names-a-proxy": (six(variable("https_proxy")), six(variable("no_proxy"))),
    "image-preloads-a-library": (six(variable("LD_PRELOAD")), six()),
    "image-overrides-the-architecture": (six(variable("HSA_OVERRIDE_GFX_VERSION")), six()),
    "image-has-a-command": (
        six({"environment.BUILT": "on $(date)"}),
        six({"environment.BUILT": "5$ (or `6)"}),
    ),
}
"""Facts of an image for which a rule holds, and of one for which it does not."""

EDGES = [
    ("rocm-7-aws-ofi-rccl", with_rocm_7_0_0(rccl_plugin__plugin="aws-ofi-rccl"), HOLDS),
    ("rocm-7-aws-ofi-nccl", with_rocm_7_0_0(rccl_plugin="1.18.0"), HOLDS),
    ("rocm-7-aws-ofi-nccl", with_rocm_7_0_0(rccl_plugin="1.17.2"), PASSED),
    ("rocm-7-aws-ofi-nccl", six(), PASSED),
    ("aws-ofi-nccl-dma-buf", six(rccl_plugin="1.17.2"), PASSED),
    ("plugin-of-other-version", with_aws_ofi_rccl(rccl_plugin="1.18.0"), HOLDS),
    ("rocm-7-gdr-level", with_rocm_7_0_0(gdr_level("3")), HOLDS),
    ("rocm-7-gdr-level", with_rocm_7_0_0(gdr_level("SYS")), HOLDS),
    ("rocm-7-gdr-level", with_rocm_7_0_0(gdr_level("5")), HOLDS),
    ("rocm-7.2-net-plugin", seven(rocm="7.1.1"), PASSED),
    ("rocm-7-cray-mpich", with_rocm_7_0_0(mpich__provider="host"), HOLDS),
    ("torch-nan-rocm-6.2", with_rocm_6_2(rocm="6.2.0", pytorch="2.6.0"), HOLDS),
    ("torch-nan-rocm-6.2", with_rocm_6_2(rocm="6.2.0", pytorch="2.5.1"), PASSED),
    ("horovod-rocm-torch", seven(pytorch="2.13.1"), HOLDS),
    ("horovod-rocm-torch", seven(pytorch="2.11.0"), PASSED),
    ("horovod-rocm-torch", seven(pytorch="2.14.0"), PASSED),
    ("horovod-without-cxx17", with_horovod(pytorch="2.1.0"), HOLDS),
    ("horovod-without-cxx17", with_horovod(pytorch="2.0.1"), PASSED),
    ("horovod-without-cxx17", six({"package.horovod": "0.28.2"}), PASSED),
]
"""The edges of ranges that no case stands at."""


def as_facts(values: Values) -> Facts:
    return {name: (Fact(value),) for name, value in values.items()}


def state(rule: Rule, values: Values) -> str:
    (finding,) = judge([rule], as_facts(values))
    return finding.state


def test_every_rule_has_a_case_in_which_it_holds_and_one_in_which_it_does_not() -> None:
    assert set(CASES) == set(RULES)


@pytest.mark.parametrize(
    ("name", "facts", "expected"),
    [
        *((name, bad, HOLDS) for name, (bad, _) in CASES.items()),
        *((name, good, PASSED) for name, (_, good) in CASES.items()),
        *EDGES,
    ],
)
def test_a_rule_holds_for_what_is_bad_and_for_nothing_else(
    name: str, facts: Values, expected: str
) -> None:
    assert state(RULES[name], facts) == expected


@pytest.mark.parametrize("name", CASES)
def test_a_rule_needs_each_of_its_conditions(name: str) -> None:
    bad, _ = CASES[name]
    for fact in RULES[name].when.keys() & bad.keys():
        without = {key: value for key, value in bad.items() if key != fact}
        assert state(RULES[name], without) in (PASSED, UNKNOWN), fact


def test_what_nobody_has_tried_on_gfx90a_is_not_refused() -> None:
    rule = RULES["flash-attention-after-aiter"]
    assert rule.level == "warning"
    assert "it is not known" in rule.reason


def test_the_two_causes_of_rings_without_trees_are_told_apart() -> None:
    level, connections = "rocm-7-gdr-level", "aws-ofi-nccl-connections"
    for values, causes in (
        (seven(gdr_level("PHB"), rccl_plugin="1.19.0"), {level}),
        (seven(), {connections}),
        (seven(gdr_level("PHB")), {level, connections}),
        (six(gdr_level("PHB")), set()),
    ):
        held = {name for name in (level, connections) if state(RULES[name], values) == HOLDS}
        assert held == causes


def judged(recipe: str, profile: str, *options: str) -> list[Finding]:
    return list(resolve(CATALOG.materials(recipe, "lumi-g", profile), options).findings)


@pytest.mark.parametrize(
    ("recipe", "profile"),
    [(name, each) for name in CATALOG.names("recipe") for each in CATALOG.recipe(name).profiles],
)
def test_no_shipped_set_of_versions_is_known_to_be_bad_on_lumi_g(recipe: str, profile: str) -> None:
    findings = judged(recipe, profile)
    assert [each.rule.id for each in findings if each.state == UNKNOWN] == []
    # A warning is left if no choice is better.
    fp16 = profile == "rocm-6.4.4" and recipe != "rocm"
    expected = [("rocm-6.4-fp16", "warning")] if fp16 else []
    if profile != "rocm-6.4.4":
        expected = [("aws-ofi-nccl-connections", "warning")]
    assert [(each.rule.id, each.rule.level) for each in findings if each.state == HOLDS] == expected


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
            {"rocm-7-cray-mpich", "aws-ofi-nccl-connections"},
        ),
    ],
)
def test_a_mixture_of_the_shipped_layers_is_known_for_what_it_is(
    profile: str, options: list[str], expected: set[str]
) -> None:
    findings = judged("rocm", profile, *options)
    assert {each.rule.id for each in findings if each.state == HOLDS} == expected


@pytest.mark.parametrize("name", RULES)
def test_a_rule_states_problem_reason_source_and_hint(name: str) -> None:
    rule = RULES[name]
    texts = (rule.message, rule.reason, rule.source, rule.hint)
    assert all(len(text) > 5 and not text.endswith(".") for text in texts)
    assert len(set(texts)) == len(texts)
