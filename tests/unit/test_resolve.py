"""Every value of an image is decided, and where it came from is known."""

from collections.abc import Callable

import pytest

from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.errors import InputError

from ..conftest import CHECK, HELLO

Resolve = Callable[..., Resolved]


def test_a_value_comes_from_the_option_before_the_recipe_before_the_variant_before_the_layer(
    resolved: Resolve,
) -> None:
    layer = (
        "summary: x\nparameters:\n"
        + "".join(f"  {name}: {{type: string, default: layer}}\n" for name in "abcd")
        + "variants:\n  cpu: {parameters: {b: variant, c: variant, d: variant}}\n"
    )
    recipe = "summary: x\nbase: tiny\nlayers:\n  - greet: {c: recipe, d: recipe}\n"
    result = resolved({"layers/greet/layer.yaml": layer, "hello.yaml": recipe}, "greet.d=option")
    settings = {s.name: (s.value, s.origin) for s in result.layers[1].settings}
    assert settings == {
        name: (name2, name2)
        for name, name2 in zip("abcd", ("layer", "variant", "recipe", "option"), strict=True)
    }


@pytest.mark.parametrize(
    ("option", "complaint"),
    [
        ("greet.greting=x", "did you mean 'greeting'?"),
        ("gret.greeting=x", "did you mean 'greet'?"),
        ("greeting=x", "write --set layer.parameter=value"),
        ("greet.loud=maybe", "expected true or false"),
        ("greet.times=1.5", "expected a whole number"),
        ("greet.loud=true", "cannot build loud for 'cpu'"),
    ],
)
def test_a_wrong_option_says_what_is_right(resolved: Resolve, option: str, complaint: str) -> None:
    with pytest.raises(InputError) as error:
        resolved(None, option)
    assert complaint in str(error.value)


AT = "https://me:pass-word@a.example/x"


@pytest.mark.parametrize(
    ("files", "options", "name"),
    [
        ({}, [f"greet.greeting={AT}"], "greeting"),
        ({"layers/greet/layer.yaml": f"summary: x\nenvironment: {{A: '{AT}'}}\n"}, [], "A"),
        (
            {
                "layers/greet/layer.yaml": f"summary: x\nsources: [{{url: '{AT}', file: x}}]\n",
                "layers/greet/install.sh": 'ls "$sources"\n',
            },
            [],
            "x",
        ),
    ],
)
def test_a_url_with_a_password_is_refused_without_showing_it(
    resolved: Resolve, files: dict[str, str], options: list[str], name: str
) -> None:
    with pytest.raises(InputError, match=f"a URL in '{name}' of layer 'greet' holds") as error:
        resolved(files, *options)
    assert "pass-word" not in str(error.value)


def test_an_option_gives_text_as_it_is_typed(resolved: Resolve) -> None:
    values = resolved(None, "greet.greeting=3.10", "greet.times=7").layers[1].values()
    assert values["greeting"] == "3.10"
    assert values["times"] == 7


@pytest.mark.parametrize("release", ["bookworm\n%setup\n touch pwned", "a b", "", "{{ x }}"])
def test_a_release_is_a_name_and_no_text_of_a_definition(resolved: Resolve, release: str) -> None:
    base = "version: bookworm\n"
    files = {"layers/tiny/layer.yaml": HELLO["layers/tiny/layer.yaml"] + base}
    assert resolved(files, "tiny.version=trixie").bootstrap.release == "trixie"
    with pytest.raises(InputError) as error:
        resolved(files, f"tiny.version={release}")
    (problem,) = error.value.problems
    assert "no release can be called" in problem.what
    assert problem.where == "--set tiny.version"
    assert "such as bookworm" in problem.hint


def test_what_the_accelerator_cannot_build_is_refused_by_name_with_the_reason(
    resolved: Resolve,
) -> None:
    recipe = "summary: x\nbase: tiny\nlayers:\n  - greet: {loud: true}\n"
    with pytest.raises(InputError) as error:
        resolved({"hello.yaml": recipe})
    assert "layer 'greet' cannot build loud for 'cpu'" in str(error.value)
    assert "no loudspeaker" in str(error.value)
    assert "hello.yaml:4:19" in str(error.value)


def test_a_parameter_is_none_where_the_accelerator_has_no_use_for_it(resolved: Resolve) -> None:
    layer = "layers/greet/layer.yaml"
    files = {layer: HELLO[layer].replace("default: 1}", "default: 1, unsupported: {cpu: x}}")}
    assert {each.name for each in resolved(files).layers[1].settings} == {"greeting", "loud"}
    with pytest.raises(InputError, match="layer 'greet' has no parameter 'times'"):
        resolved(files, "greet.times=2")


def test_unknown_layers_and_parameters_are_reported_at_once(resolved: Resolve) -> None:
    recipe = "summary: x\nbase: tinny\nlayers:\n  - gret\n  - greet\n  - greet\n"
    with pytest.raises(InputError) as error:
        resolved({"hello.yaml": recipe})
    text = str(error.value)
    assert "did you mean 'tiny'?" in text
    assert "did you mean 'greet'?" in text
    assert "layer 'greet' stands here twice" in text


def test_a_layer_that_is_left_out_says_why_and_settles_nothing(resolved: Resolve) -> None:
    layer = "summary: x\nvariants:\n  cpu: {omit: there is no GPU}\n"
    result = resolved({"layers/greet/layer.yaml": layer})
    assert result.layers[1].omitted == "there is no GPU"
    assert [layer.name for layer in result.included()] == ["tiny"]


def test_a_layer_without_a_variant_for_the_platform_is_an_error(resolved: Resolve) -> None:
    layer = "summary: x\nvariants:\n  rocm: {}\n"
    with pytest.raises(InputError) as error:
        resolved({"layers/greet/layer.yaml": layer})
    assert "no variant for the accelerator 'cpu'" in str(error.value)


def test_a_layer_must_stand_behind_what_it_requires(resolved: Resolve) -> None:
    recipe = "summary: x\nbase: tiny\nlayers:\n  - loud\n  - greet\n"
    loud = "summary: x\nrequires: [greet]\n"
    with pytest.raises(InputError) as error:
        resolved({"hello.yaml": recipe, "layers/loud/layer.yaml": loud})
    assert "put '- greet' above '- loud'" in str(error.value)


def test_layers_that_exclude_each_other_are_refused(resolved: Resolve) -> None:
    recipe = "summary: x\nbase: tiny\nlayers:\n  - greet\n  - quiet\n"
    quiet = "summary: x\nconflicts: [greet]\n"
    with pytest.raises(InputError) as error:
        resolved({"hello.yaml": recipe, "layers/quiet/layer.yaml": quiet})
    assert "'quiet' and 'greet' exclude each other" in str(error.value)


def test_a_layer_that_is_no_base_cannot_be_the_base(resolved: Resolve) -> None:
    with pytest.raises(InputError) as error:
        resolved({"hello.yaml": "summary: x\nbase: greet\nlayers: []\n"})
    assert "layer 'greet' is not a base" in str(error.value)


FRAMEWORKS = {
    "layers/greet/layer.yaml": (
        "summary: x\nparameters:\n  uses: {type: layers, default: [one], choices: [one, two]}\n"
    ),
    "layers/greet/install.sh": "true\n",
    "layers/greet/one/data": "1\n",
    "layers/greet/two/data": "2\n",
    "layers/greet/checks/two/works.sh": CHECK + "true\n",
    "layers/one/layer.yaml": "summary: x\npath: [/one]\n",
    "layers/two/layer.yaml": "summary: x\npath: [/two]\n",
    "hello.yaml": "summary: x\nbase: tiny\nlayers: [one, two, greet]\n",
}


@pytest.mark.parametrize(
    ("option", "value", "folders", "checks"),
    [
        ((), "one", {"one"}, []),
        (("greet.uses=two",), "two", {"two"}, ["greet/works"]),
        (("greet.uses=two,one",), "two one", {"one", "two"}, ["greet/works"]),
    ],
    ids=["one", "two", "both"],
)
def test_a_layer_is_made_for_the_layers_that_its_parameter_names(
    resolved: Resolve, option: tuple[str, ...], value: str, folders: set[str], checks: list[str]
) -> None:
    layer = resolved(FRAMEWORKS, *option).layers[-1]
    assert layer.values() == {"uses": value}
    assert list(layer.requires) == value.split()
    named = {file.name.partition("/")[0] for file in layer.files} - {"install.sh"}
    assert (named, [check.name for check in layer.checks.each]) == (folders, checks)


@pytest.mark.parametrize(
    ("recipe", "complaint"),
    [
        ("[greet: {uses: [one]}, one]", "layer 'greet' requires 'one' before it"),
        ("[one, greet: {uses: [onee]}]", "invalid value 'onee' of 'uses'"),
        ("[one, greet: {uses: []}]", "expected names of layers, got none"),
        ("[one, greet: {uses: {a: b}}]", "expected a list, got a mapping"),
    ],
    ids=["order", "unknown", "none", "mapping"],
)
def test_layers_that_a_parameter_cannot_name_are_refused(
    resolved: Resolve, recipe: str, complaint: str
) -> None:
    files = {**FRAMEWORKS, "hello.yaml": f"summary: x\nbase: tiny\nlayers: {recipe}\n"}
    with pytest.raises(InputError) as error:
        resolved(files)
    assert complaint in str(error.value)


def test_a_required_layer_that_is_left_out_says_why(resolved: Resolve) -> None:
    one = {"layers/one/layer.yaml": "summary: x\nvariants: {cpu: {omit: no GPU}}\n"}
    with pytest.raises(InputError) as error:
        resolved({**FRAMEWORKS, **one})
    assert "'one' is left out: no GPU" in str(error.value)
