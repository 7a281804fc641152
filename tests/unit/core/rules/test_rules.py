"""Rules are read whole, conditions are yes, no or not known, and facts come from all parts."""

from collections.abc import Callable

import pytest

from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.model.wheel_names import wheel_facts
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.core.resolve.facts import facts_of
from lumicontainer.core.rules.conditions import Fact, is_met, parse
from lumicontainer.core.rules.rules import (
    HOLDS,
    PASSED,
    Rule,
    Vocabulary,
    judge,
    of_drivers,
    read_rules,
    refuse,
)
from lumicontainer.errors import InputError, Problems

from ....conftest import HELLO, Write

Resolve = Callable[..., Resolved]
VOCABULARY = Vocabulary(("greet", "rocm"), lambda layer: ["loud"] if layer == "greet" else [])
NAMES = ("rocm", "python", "glibc", "driver")


def rule(when: str, name: str = "r", level: str = "error") -> str:
    texts = "".join(f"    {key}: some {key}\n" for key in ("message", "reason", "source", "hint"))
    return f"  - id: {name}\n    level: {level}\n    when: {when}\n{texts}"


def read(*rules: str) -> tuple[dict[str, Rule], str]:
    """Return the rules of a document, empty if it is refused, and its problems."""
    problems = Problems()
    table = read_rules("rules:\n" + "".join(rules), "rules.yaml", problems, vocabulary=VOCABULARY)
    assert (table is None) == bool(problems.noted)
    return table or {}, "\n".join(str(problem) for problem in problems.noted)


@pytest.mark.parametrize(
    ("when", "complaint"),
    [
        ("{rocn: any}", "did you mean 'rocm'?"),
        ("{drivr: any}", "did you mean 'driver'?"),
        ("{greet.lod: true}", "layer 'greet' has no parameter 'lod'"),
        ("{gret.loud: true}", "layer 'gret' not found"),
        ("{rocm: host}", "names no version and no other fact"),
        ('{rocm: "> 7, < x"}', "'<x' names no version"),
        ("{rocm: 7.0}", 'write "7.0"'),
        ("{environment.A-B: x}", "the name of a shell variable"),
        ("{}", "'when' is a mapping"),
        ("{rocm: []}", "expected a condition"),
    ],
)
def test_a_condition_that_nothing_can_meet_is_refused(when: str, complaint: str) -> None:
    _, text = read(rule(when))
    assert complaint in text
    assert "rules.yaml:4:" in text


def test_what_an_unknown_layer_is_compared_with_is_not_judged() -> None:
    _, text = read(rule("{gret.loud: []}"))
    assert "layer 'gret' not found" in text
    assert "expected a condition" not in text


def test_all_that_is_wrong_with_rules_is_reported_at_once() -> None:
    wrong = [rule("{rocn: any}"), rule("{gret: any}", "q", "fatal"), "  - {id: s}\n"]
    _, text = read(*wrong, rule("{rocm: any}"), rule("{rocm: any}"))
    words = (
        "'rocn'",
        "'gret'",
        "invalid level 'fatal'",
        "a rule needs 'hint'",
        "duplicate rule 'r'",
    )
    assert [each for each in words if each not in text] == []


@pytest.mark.parametrize(
    ("version", "condition", "expected"),
    [
        ("6.4.4", "6.4", True),
        ("6.4.4-129", "<6.4.5", True),
        ("6.40", "6.4", False),
        ("7", "7.0", True),
        ("6.4.4", "!=6.4", False),
        ("6.4.4", ">=6.1,<7.1", True),
        ("7.1.0", ">=6.1,<7.1", False),
        ("2.9.1+rocm6.4", "2.9", True),
        ("2.10.0a0+gitf0374f2", ">=2.10", True),
        ("1.20.0rc1", "<1.20", False),
        ("v2.7.3-cktile", "2.7", True),
        ("465cb97", "465cb97aa", True),
        ("465cb97", "!=bbe25ba", True),
        ("465cb97", ">=1", None),
        ("465cb97", "1", None),
        ("2.8.3", "465cb97", False),
        ("latest", "<7", None),
        ("", "<7", None),
        ("", "any", True),
        ("6.4", "absent", False),
        ("host", "host", True),
        ("host", "!=host", False),
        ("source", "host", False),
        ("6.4", "rocm", True),
        ("6.3", "!=rocm", True),
        ("6.4.1", "!=rocm", True),
        ("2.28", "<rocm", True),
        ("6.4", "!=driver", None),
    ],
)
def test_a_condition_holds_or_does_not(version: str, condition: str, expected: bool | None) -> None:
    facts = {"x": (Fact(version),), "rocm": (Fact("6.4.4"),)}
    assert is_met("x", [parse(condition, NAMES, free=True)], facts) is expected


def test_of_several_conditions_and_of_several_values_one_is_enough() -> None:
    either = [parse(text, NAMES, free=True) for text in ("PHB", "SYS")]
    assert is_met("x", either, {"x": (Fact("SYS"),)}) is True
    assert is_met("x", either, {"x": (Fact("LOC"), Fact("PHB"))}) is True
    assert is_met("x", either, {"x": (Fact("LOC"),)}) is False


def test_what_nothing_says_is_not_known_and_what_is_not_there_is_absent() -> None:
    old = [parse("<7", NAMES)]
    assert is_met("driver", old, {}) is None
    assert is_met("rocm", old, {}) is False
    assert is_met("rocm", [parse("absent", NAMES)], {}) is True
    assert is_met("rocm", old, {"rocm": (Fact(""),)}) is None
    # No layer says it with this accelerator, such as a provider.
    assert is_met("rocm.provider", [parse("host", NAMES, free=True)], {}) is False


@pytest.mark.parametrize(("rocm", "state"), [("7.2", "not known"), ("7.0", PASSED)])
def test_a_rule_that_cannot_be_judged_has_not_passed(rocm: str, state: str) -> None:
    rules, _ = read(rule('{rocm: ">=7.1", driver: "6.3"}'))
    (finding,) = judge(rules.values(), {"rocm": (Fact(rocm),)})
    assert finding.state == state


def test_errors_refuse_all_at_once_and_warnings_are_returned() -> None:
    rules, _ = read(
        rule("{rocm: any}", "one"), rule("{rocm: any}", "two"), rule("{rocm: any}", "w", "warning")
    )
    facts = {"rocm": (Fact("7.0", "recipe.yaml:3:5"),)}
    with pytest.raises(InputError, match=r"rocm 7\.0 \(recipe\.yaml:3:5\)") as error:
        refuse(judge(rules.values(), facts))
    assert [problem.level for problem in error.value.problems] == ["error", "error"]
    (warning,) = refuse(judge([rules["w"]], facts))
    assert str(warning).startswith("warning: some message [w]\n")


OLDER = {"wheel.python": "3.11", "wheel.glibc": "2.17"}


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        (
            "torch-2.9.1+rocm6.4-cp312-cp312-manylinux_2_28_x86_64.whl",
            {"wheel.rocm": "6.4", "wheel.python": "3.12", "wheel.glibc": "2.28"},
        ),
        ("pytorch_triton_rocm-3.5.1-cp312-cp312-linux_x86_64.whl", {"wheel.python": "3.12"}),
        ("six-1.17.0-py2.py3-none-any.whl", {}),
        ("psutil-7.0.0-cp36-abi3-manylinux_2_12_x86_64.whl", {"wheel.glibc": "2.12"}),
        ("a-1-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl", OLDER),
        ("a-1-cp311-cp311-manylinux2014_x86_64.manylinux_2_28_x86_64.whl", OLDER),
        ("libfabric.tar.gz", {}),
    ],
)
def test_the_name_of_a_wheel_says_what_it_is_made_for(file: str, expected: dict[str, str]) -> None:
    assert dict(wheel_facts(file)) == expected


def fact_values(resolved: Resolved) -> dict[str, list[str]]:
    return {name: [fact.value for fact in facts] for name, facts in facts_of(resolved).items()}


def test_facts_come_from_all_parts_of_a_layer(resolved: Resolve) -> None:
    layer = (
        'summary: x\nversion: "2.9.1+rocm6.4"\n'
        "parameters: {loud: {type: boolean, default: true}}\n"
        "provides: {libfabric: '2.1'}\n"
        "packages: {python: ['Flash_Attn[x]==2.8.3', 'torchaudio==2.9.1+rocm6.4']}\n"
        "sources:\n"
        "  - {git: 'https://github.com/a/b', commit: 465cb97, folder: b}\n"
        "  - {url: 'https://a.org/a-1%2Brocm6.3-cp312-cp312-manylinux_2_28_x86_64.whl',\n"
        "     file: a-1+rocm6.3-cp312-cp312-manylinux_2_28_x86_64.whl}\n"
        "environment: {NCCL_NET_GDR_LEVEL: PHB}\n"
    )
    script = 'ls "$sources"\n'
    files = {"layers/greet/layer.yaml": layer, "layers/greet/install.sh": script}
    seen = fact_values(resolved(files))
    expected = {
        "greet": ["2.9.1+rocm6.4"],
        "greet.loud": ["true"],
        "greet.commit": ["465cb97"],
        "libfabric": ["2.1"],
        "package.flash-attn": ["2.8.3"],
        "environment.NCCL_NET_GDR_LEVEL": ["PHB"],
        "wheel.rocm": ["6.4", "6.4", "6.3"],
        "wheel.python": ["3.12"],
        "wheel.glibc": ["2.28"],
        "tiny": [""],
        "tiny.commit": None,
    }
    assert {name: seen.get(name) for name in expected} == expected


def test_facts_come_from_files_of_requirements_too(resolved: Resolve) -> None:
    lines = (
        "# what the script installs\n"
        "torch==2.9.1+rocm6.2\n"
        f"Flash_Attn[x]==2.8.3 \\\n  --hash=sha256:{'0a' * 32}\n"
        "einops>=0.8\n"
        "horovod==0.28.1; python_version < '3'\n"
    )
    files = {
        "layers/greet/requirements.txt": lines,
        "layers/greet/build.txt": "cython==3.2.4\n",
        "layers/greet/notes.txt": "no requirements: these are words\n",
    }
    facts = facts_of(resolved(files))
    packages = {name: facts[name][0].value for name in facts if name.startswith("package.")}
    assert packages == {
        "package.torch": "2.9.1+rocm6.2",
        "package.flash-attn": "2.8.3",
        "package.einops": "",
    }
    (tag,) = facts["wheel.rocm"]
    assert tag.value == "6.2"
    assert tag.place.endswith("layers/greet/requirements.txt:2:1")


def test_a_layer_that_is_left_out_gives_no_facts(resolved: Resolve) -> None:
    layer = "summary: x\nversion: '1'\nvariants:\n  cpu: {omit: no GPU}\n"
    assert "greet" not in fact_values(resolved({"layers/greet/layer.yaml": layer}))


def test_a_platform_states_its_driver_and_variables(write: Write, resolved: Resolve) -> None:
    row = "reason: x, source: x"
    platform = (
        'summary: x\naccelerator: cpu\ndriver: "6.3"\nvariables:\n'
        f"  - {{name: A, value: old, when: {{rocm: <6.2}}, {row}}}\n"
        f"  - {{name: A, value: new, when: {{rocm: '>=6.2'}}, {row}}}\n"
    )
    files = {
        "envs/workstation.yaml": platform,
        "layers/rocm/layer.yaml": "summary: x\nversion: '7.0.2'\npath: [/x]\n",
        "hello.yaml": "summary: x\nbase: tiny\nlayers: [rocm]\n",
    }
    seen = fact_values(resolved(files))
    assert seen["driver"] == ["6.3"]
    assert seen["environment.A"] == ["new"]


def test_a_layer_without_a_version_does_not_hide_what_the_base_provides(resolved: Resolve) -> None:
    base = HELLO["layers/tiny/layer.yaml"] + "provides: {glibc: '2.36', python: '3.11'}\n"
    files = {
        "layers/tiny/layer.yaml": base,
        "layers/python/layer.yaml": "summary: x\npath: [/x]\n",
        "hello.yaml": "summary: x\nbase: tiny\nlayers: [python]\n",
    }
    assert fact_values(resolved(files))["python"] == ["3.11"]


def test_a_users_rule_takes_the_place_of_the_shipped_one_with_its_id(write: Write) -> None:
    shipped = open_catalog().rules()
    name = next(iter(shipped))
    own = rule("{greet: any}", name, "warning")
    rules = open_catalog(write({**HELLO, "rules.yaml": f"rules:\n{own}"})).rules()
    assert rules[name].message == "some message"
    assert rules.keys() == shipped.keys()


def test_a_users_layer_without_a_parameter_does_not_break_the_shipped_rules(write: Write) -> None:
    folder = write({**HELLO, "layers/mpich/layer.yaml": "summary: mine\n"})
    assert open_catalog(folder).rules().keys() == open_catalog().rules().keys()


def test_the_file_of_rules_is_no_recipe(write: Write) -> None:
    catalog = open_catalog(write({**HELLO, "rules.yaml": "rules: []\n"}))
    assert "rules" not in catalog.names("recipe")
    with pytest.raises(InputError):
        catalog.recipe("rules")


def test_what_depends_on_the_driver_is_handed_to_the_node() -> None:
    rules, _ = read(
        rule('{driver: "6.3", rocm: ">=7.1"}', "above"),
        rule('{driver: "!=6.3", rocm: any}', "unknown", "warning"),
        rule("{rocm: any}", "other"),
    )
    rows = of_drivers(rules.values(), {"rocm": (Fact("7.2"),), "driver": (Fact("6.3"),)})
    levels = [(row["driver"], row["level"]) for row in rows]
    assert levels == [(["6.3"], "error"), (["!=6.3"], "warning")]
    assert rows[0]["source"] == "some source"
    (only,) = of_drivers(rules.values(), {"rocm": (Fact("6.4"),)})
    assert only["driver"] == ["!=6.3"]
    assert of_drivers(rules.values(), {}) == ()


MACHINE = (
    "summary: x\naccelerator: cpu\ndiscouraged:\n"
    "  - {name: CARDS, allowed_values: ['*gfx90a*'], reason: other cards, source: s, hint: h}\n"
    "  - {name: LEVEL, when: {rocm: '>=7'}, reason: of ROCm 7, source: s, hint: h}\n"
)


def findings_of(resolved: Resolve, environment: str) -> dict[str, str]:
    """Return what holds for an image with ROCm 6.4, by the name of each rule, with its places."""
    layer = f"summary: x\nenvironment: {environment}\n"
    files = {
        "envs/workstation.yaml": MACHINE,
        "layers/rocm/layer.yaml": "summary: x\nversion: '6.4.4'\npath: [/x]\n",
        "layers/greet/layer.yaml": layer,
        "hello.yaml": "summary: x\nbase: tiny\nlayers: [rocm, greet]\n",
    }
    holding = (each for each in resolved(files).findings if each.state == HOLDS)
    return {each.rule.id: each.problem().where for each in holding}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variable", "rule_name"),
    [
        ("HIP_VISIBLE_DEVICES", "image-chooses-gpus"),
        ("NVIDIA_VISIBLE_DEVICES", "image-chooses-gpus"),
        ("ZE_AFFINITY_MASK", "image-chooses-gpus"),
        ("HOROVOD_LOCAL_RANK", "image-has-a-rank"),
        ("FI_VERBS_IFACE", "image-names-an-interface"),
        ("OMPI_MCA_oob_tcp_if_include", "image-names-an-interface"),
        ("WORLD_SIZE", "image-has-a-rank"),
        ("SLURM_PROCID", "image-has-a-rank"),
        ("GLOO_SOCKET_IFNAME", "image-names-an-interface"),
        ("FI_CXI_DEVICE_NAME", "image-names-an-interface"),
        ("HTTPS_PROXY", "image-names-a-proxy"),
        ("HSA_OVERRIDE_GFX_VERSION", "image-overrides-the-architecture"),
        ("LD_PRELOAD", "image-preloads-a-library"),
    ],
)
def test_a_variable_of_another_machine_is_named_with_its_layer(
    resolved: Resolve, variable: str, rule_name: str
) -> None:
    findings = findings_of(resolved, f"{{{variable}: '7', WORLD: x}}")
    assert findings == {rule_name: f"{variable}=7 (layer 'greet')"}


@pytest.mark.parametrize("value", ["$(date)", "built by `whoami`"])
def test_a_value_with_a_command_is_named(resolved: Resolve, value: str) -> None:
    assert findings_of(resolved, f"{{BUILT: '{value}', PRICE: 5$ (or 6)}}") == {
        "image-has-a-command": f"BUILT={value} (layer 'greet')"
    }


def test_a_value_that_the_platform_discourages_is_named_with_its_layer(resolved: Resolve) -> None:
    findings = findings_of(resolved, "{CARDS: gfx1030, LEVEL: PHB}")
    assert findings == {"discouraged-CARDS": "CARDS=gfx1030 (layer 'greet')"}
    assert findings_of(resolved, "{CARDS: gfx90a;gfx942}") == {}
