"""Every value of an image is decided, and where it came from is known."""

from collections.abc import Callable

import pytest

from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.errors import InputError

from ....conftest import CHECK, HELLO
from .test_order import error_of

Resolve = Callable[..., Resolved]


@pytest.mark.parametrize(
    ("option", "complaint"),
    [
        ("greet.greting=x", "did you mean 'greeting'?"),
        ("gret.greeting=x", "did you mean 'greet'?"),
        ("greeting=x", "write --set layer.parameter=value"),
        ("greet.loud=maybe", "expected true or false"),
        ("greet.times=1.5", "expected a whole number"),
    ],
)
def test_a_wrong_option_says_what_is_right(resolved: Resolve, option: str, complaint: str) -> None:
    assert complaint in error_of(resolved, {}, option)


AT = "https://me:pass-word@a.example/x"


@pytest.mark.parametrize(
    ("layer", "options", "complaints"),
    [
        (
            HELLO["layers/greet/layer.yaml"],
            [f"greet.greeting={AT}"],
            ("a URL in 'greeting' of layer 'greet' holds", "give it by --secret"),
        ),
        (
            f"summary: x\nenvironment: {{A: '{AT}'}}\n",
            [],
            ("a URL in 'A' of layer 'greet' holds", "give it by --secret"),
        ),
        (
            f"summary: x\nsources: [{{url: '{AT}', file: x}}]\n",
            [],
            ("invalid URL 'https://a.example/x'", "passwords belong to pip config"),
        ),
        (
            "summary: x\nenvironment: {HF_TOKEN: pass-word-0123456789}\n",
            [],
            ("'HF_TOKEN' of layer 'greet' holds a secret", "--secret id="),
        ),
    ],
)
def test_a_password_or_token_is_refused_without_showing_it(
    resolved: Resolve, layer: str, options: list[str], complaints: tuple[str, str]
) -> None:
    files = {"layers/greet/layer.yaml": layer, "layers/greet/install.sh": 'ls "$sources"\n'}
    text = error_of(resolved, files, *options)
    assert all(each in text for each in complaints), text
    assert "pass-word" not in text


def test_an_option_gives_text_as_it_is_typed(resolved: Resolve) -> None:
    values = resolved(None, "greet.greeting=3.10", "greet.times=7").layers[1].values()
    assert values["greeting"] == "3.10"
    assert values["times"] == 7


@pytest.mark.slow
@pytest.mark.parametrize("release", ["bookworm\n%setup\n touch pwned", "a b", "", "{{ x }}"])
def test_a_release_is_a_name_and_no_text_of_a_definition(resolved: Resolve, release: str) -> None:
    base = "version: bookworm\n"
    files = {"layers/tiny/layer.yaml": HELLO["layers/tiny/layer.yaml"] + base}
    assert resolved(files, "tiny.version=trixie").bootstrap.release == "trixie"
    with pytest.raises(InputError) as error:
        resolved(files, f"tiny.version={release}")
    (problem,) = error.value.problems
    assert "invalid release" in problem.what
    assert problem.where == "--set tiny.version"
    assert "such as bookworm" in problem.hint


SDIST = "summary: x\nsources: [{sdist: mpi4py}]\n"


@pytest.mark.parametrize(
    ("layer", "file", "complaint"),
    [
        (SDIST, "install.sh", "'greet' takes 'mpi4py' and has no parameter 'version'"),
        (f"version: '4'\n{SDIST}", "requirements.txt", "writes the file 'requirements.txt' itself"),
        ("summary: x\nsources: [{url: 'https://a.org/b', file: b}]\n", "finish.sh", "does not use"),
    ],
    ids=["no version", "own requirements", "finish"],
)
def test_sources_that_no_step_could_install_are_refused(
    resolved: Resolve, layer: str, file: str, complaint: str
) -> None:
    text = '# ls "$sources"\n' if file == "finish.sh" else ""
    files = {"layers/greet/layer.yaml": layer, f"layers/greet/{file}": text}
    assert complaint in error_of(resolved, files)


def test_a_parameter_is_left_out_if_the_accelerator_has_no_use_for_it(resolved: Resolve) -> None:
    layer = "layers/greet/layer.yaml"
    files = {layer: HELLO[layer].replace("default: 1}", "default: 1, unsupported: {cpu: x}}")}
    assert {each.name for each in resolved(files).layers[1].settings} == {"greeting", "loud"}
    assert "layer 'greet' has no parameter 'times'" in error_of(resolved, files, "greet.times=2")


def test_a_layer_that_is_left_out_says_why_and_settles_nothing(resolved: Resolve) -> None:
    layer = "summary: x\nvariants:\n  cpu: {omit: there is no GPU}\n"
    result = resolved({"layers/greet/layer.yaml": layer})
    assert result.layers[1].omitted == "there is no GPU"
    assert [layer.name for layer in result.included()] == ["tiny"]


ROCM_ALONE = "summary: x\nvariants:\n  rocm: {}\n"


@pytest.mark.parametrize(
    ("recipe", "layers", "complaints"),
    [
        (
            "tiny\nlayers:\n  - greet: {loud: true}\n",
            {},
            ["layer 'greet' cannot build loud for 'cpu'", "no loudspeaker", "hello.yaml:4:19"],
        ),
        (
            "tinny\nlayers: [gret, greet, greet]\n",
            {},
            ["mean 'tiny'?", "mean 'greet'?", "duplicate layer 'greet'"],
        ),
        (
            "tiny\nlayers: [greet]\n",
            {"greet": ROCM_ALONE},
            ["no variant for the accelerator 'cpu'"],
        ),
        (
            "tiny\nlayers: [greet, quiet]\n",
            {"quiet": "summary: x\nconflicts: [greet]\n"},
            ["'quiet' and 'greet' exclude each other"],
        ),
        ("greet\nlayers: []\n", {}, ["layer 'greet' is not a base"]),
    ],
    ids=["unsupported", "several", "no variant", "conflict", "base"],
)
def test_layers_that_make_no_image_are_refused(
    resolved: Resolve, recipe: str, layers: dict[str, str], complaints: list[str]
) -> None:
    files = {f"layers/{name}/layer.yaml": text for name, text in layers.items()}
    text = error_of(resolved, {**files, "hello.yaml": f"summary: x\nbase: {recipe}"})
    assert [each for each in complaints if each not in text] == []


def test_a_layer_for_another_accelerator_names_the_platforms_that_have_it(
    resolved: Resolve,
) -> None:
    files = {
        "layers/greet/layer.yaml": "summary: x\nrequires: [driver]\nvariants: {rocm: {}}\n",
        "layers/driver/layer.yaml": "summary: x\n",
    }
    text = error_of(resolved, files)
    assert "hint: use --platform lumi-g or rocm-debian, or add variants.cpu to " in text
    assert text.count("error: ") == 1, "what it requires is missing for the same reason"


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


@pytest.mark.slow
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
    assert complaint in error_of(resolved, files)


def test_a_required_layer_that_is_left_out_says_why(resolved: Resolve) -> None:
    one = {"layers/one/layer.yaml": "summary: x\nvariants: {cpu: {omit: no GPU}}\n"}
    assert "'one' is left out: no GPU" in error_of(resolved, {**FRAMEWORKS, **one})
