"""Recipes, layers and platforms are read whole, and all that is wrong is said at once."""

from pathlib import Path

import pytest

from lumicontainer.core.catalog import open_catalog
from lumicontainer.errors import InputError

from ....conftest import HELLO, Write


def layer_problems(folder: Path, name: str = "greet") -> str:
    try:
        open_catalog(folder).layer(name)
    except InputError as error:
        return str(error)
    return ""


def test_five_mistakes_are_reported_at_once_each_at_its_line_and_column(write: Write) -> None:
    text = "sumary: a\nbase: [x]\nlayers:\n  - no\n  - {a: {}, b: {}}\n  - Bad Name\n"
    with pytest.raises(InputError) as error:
        open_catalog(write({"broken.yaml": text})).recipe("broken")
    text = str(error.value)
    for place in ("1:1", "2:7", "4:5", "5:5", "6:5"):
        assert f"broken.yaml:{place}" in text
    assert "did you mean 'summary'?" in text
    assert "recipe needs 'summary'" in text


def test_an_unknown_name_is_refused_with_the_nearest(write: Write) -> None:
    catalog = open_catalog(write(HELLO))
    with pytest.raises(InputError, match="did you mean 'hello'"):
        catalog.recipe("helo")
    with pytest.raises(InputError, match="did you mean 'lumi-g'"):
        catalog.platform("lumig")


@pytest.mark.parametrize("name", ["../secret", "a/b", ""])
def test_a_recipe_name_does_not_lead_out_of_the_folder(write: Write, name: str) -> None:
    with pytest.raises(InputError):
        open_catalog(write(HELLO)).recipe(name)


@pytest.mark.parametrize("stem", ["a\n%setup\n touch x #", "{{ a }}", "a; b", ".a", "-a", "a'b"])
@pytest.mark.parametrize(
    ("file", "kind"),
    [("{}.yaml", "recipe"), ("envs/{}.yaml", "platform"), ("profiles/{}.yaml", "profile")],
)
def test_a_name_of_other_letters_is_refused(write: Write, file: str, kind: str, stem: str) -> None:
    path = file.format(stem)
    catalog = open_catalog(write({path: "summary: x\n"}))
    with pytest.raises(InputError) as error:
        getattr(catalog, kind)(stem)
    text = str(error.value)
    assert f"invalid name {stem!r} of a {kind}" in text
    assert (path if path.isprintable() else ascii(path)[1:-1]) in text
    assert "hint: rename the file" in text


def test_a_folder_of_recipes_that_is_not_there_is_an_error() -> None:
    with pytest.raises(InputError, match="check --recipes"):
        open_catalog(Path("nowhere"))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("%post", "'%'"),
        ("   %files /etc/shadow", "'%'"),
        ("echo {{ word }}", "build argument"),
        ("Bootstrap: docker", "stage"),
    ],
)
def test_a_line_of_apptainer_s_own_syntax_is_refused(write: Write, line: str, reason: str) -> None:
    text = layer_problems(write({**HELLO, "layers/greet/install.sh": f"true\n{line}\n"}))
    assert "layers/greet/install.sh:2:1" in text
    assert reason in text


def test_a_script_that_is_not_text_is_refused(write: Write) -> None:
    folder = write(HELLO)
    (folder / "layers/greet/install.sh").write_bytes(b"echo \xff\n")
    assert "the script is not UTF-8 text" in layer_problems(folder)


@pytest.mark.parametrize("name", ["a\n%setup\n touch pwned #", "a\x1b[2J", "{{ a }}", "a\udcff"])
def test_a_file_whose_name_a_definition_cannot_hold_is_refused(write: Write, name: str) -> None:
    folder = write(HELLO)
    (folder / "layers/greet" / name).write_text("x")
    text = layer_problems(folder)
    assert "hint: rename it" in text
    assert f"layers/greet/{ascii(name)[1:-1]}" in text


@pytest.mark.parametrize("name", ["100%", "%a b's", "größe_1,2 (x)"])
def test_a_file_of_any_other_name_is_taken(write: Write, name: str) -> None:
    folder = write(HELLO)
    (folder / "layers/greet" / name).write_text("x")
    assert not layer_problems(folder)


def problems_with(write: Write, text: str) -> str:
    layer = f"summary: x\n{text}\n"
    return layer_problems(write({**HELLO, "layers/greet/layer.yaml": layer}))


@pytest.mark.parametrize("name", ["PATH", "LD_PRELOAD", "IFS", "HOME", "jobs", "version"])
def test_a_parameter_has_no_name_that_the_shell_or_build_needs(write: Write, name: str) -> None:
    text = problems_with(write, f"parameters: {{{name}: {{type: string, default: x}}}}")
    assert f"a parameter cannot be named '{name}'" in text


@pytest.mark.parametrize("name", ["PATH", "HOME", "IFS", "TMPDIR"])
def test_an_image_holds_no_variable_of_the_shell_or_the_user(write: Write, name: str) -> None:
    text = problems_with(write, f"environment: {{{name}: /x}}")
    assert f"the environment cannot hold '{name}'" in text


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("/opt/a/lib:$LIBRARIES", "prepend: {LIBRARIES: [/opt/a/lib]}"),
        ("${LIBRARIES:-}:/a:/b", "prepend: {LIBRARIES: [/a, /b]}"),
        ("$OTHER/lib", "write the value itself"),
    ],
)
def test_a_value_that_names_a_variable_is_refused_with_what_to_write(
    write: Write, value: str, hint: str
) -> None:
    text = problems_with(write, f'environment: {{LIBRARIES: "{value}"}}')
    assert "the value of 'LIBRARIES' names a variable" in text
    assert hint in text


@pytest.mark.parametrize(
    ("declared", "complaint"),
    [
        ("type: boolean, default: maybe", "expected true or false"),
        ("type: string, default: x, choices: [u, v]", "invalid value 'x' of 'a'"),
        ("type: integer, default: 1, choices: [a]", "'choices' of 'a' is for the types string and"),
    ],
)
def test_a_parameter_must_fit_its_declaration(write: Write, declared: str, complaint: str) -> None:
    assert complaint in problems_with(write, f"parameters: {{a: {{{declared}}}}}")


def test_escape_sequences_in_a_summary_are_refused(write: Write) -> None:
    layer = 'summary: "x \\e[2J"\n'
    assert "printable" in layer_problems(write({**HELLO, "layers/greet/layer.yaml": layer}))


def test_the_users_layer_stands_before_the_shipped_one(write: Write) -> None:
    folder = write({"layers/python/layer.yaml": "summary: mine\n"})
    assert open_catalog(folder).layer("python").summary == "mine"


def test_every_shipped_recipe_layer_and_platform_is_right() -> None:
    catalog = open_catalog()
    assert [catalog.recipe(name).name for name in catalog.names("recipe")]
    assert [catalog.platform(name).name for name in catalog.names("platform")]
    assert [catalog.layer(name).name for name in catalog.names("layer")]


def test_hidden_files_are_no_documents(write: Write) -> None:
    folder = write({**HELLO, "envs/._mine.yaml": "\0\5", "profiles/.old.yaml": "x: 1\n"})
    (folder / "._hello.yml").write_bytes(b"\x00\x05\xff")
    for name in (".#hello.yaml", ".#hello.yml", "envs/.#mine.yaml"):
        (folder / name).symlink_to("me@host.1234:1700000000")
    catalog, shipped = open_catalog(folder), open_catalog()
    for kind in ("platform", "profile"):
        assert catalog.names(kind) == shipped.names(kind)
    assert {*catalog.names("recipe")} - {*shipped.names("recipe")} == {"hello"}


@pytest.mark.parametrize("name", ["image", "host"])
def test_a_layer_has_no_name_that_checks_of_no_layer_have(write: Write, name: str) -> None:
    text = layer_problems(write({f"layers/{name}/layer.yaml": "summary: x\n"}), name)
    assert f"invalid name '{name}' of a layer" in text
    assert "rename its folder" in text


@pytest.mark.parametrize(
    ("file", "where", "meant"),
    [
        ("hello.yml", "hello.yml", "hello.yaml"),
        ("layers/own/layer.yml", "layers/own/layer.yml", "layer.yaml"),
        ("layer/own/layer.yaml", "layer", "layers"),
        ("profile/own.yaml", "profile", "profiles"),
        ("env/own.yaml", "env", "envs"),
        ("platforms/own.yaml", "platforms", "envs"),
        ("rule.yaml", "rule.yaml", "rules.yaml"),
        ("lock/own.lock.yaml", "lock", "locks"),
    ],
)
def test_what_nothing_reads_is_refused(write: Write, file: str, where: str, meant: str) -> None:
    with pytest.raises(InputError) as error:
        open_catalog(write({file: "summary: x\nbase: tiny\n"}))
    assert f"/own/{where}\n" in str(error.value)
    assert f"rename it to {meant}" in str(error.value)


def test_a_virtual_environment_next_to_recipes_is_not_ours(write: Write) -> None:
    others = {"env/pyvenv.cfg": "x", "check/x.sh": "true\n", "compose.yml": "a: b\n"}
    assert open_catalog(write({**HELLO, **others}))


def test_locks_lie_beside_their_recipe_in_no_folder_that_is_a_link(write: Write) -> None:
    folder = write(HELLO)
    catalog = open_catalog(folder)
    assert catalog.locks("hello") == folder / "locks"
    (folder / "locks").symlink_to(folder.parent)
    with pytest.raises(InputError, match="link"):
        catalog.locks("hello")
