"""Files with odd characters, types or names become a draft that can be read, or are refused."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lumicontainer.errors import InputError, Problems
from lumicontainer.importing.draft import Draft
from lumicontainer.importing.writing import files_of
from lumicontainer.system.files import recipe_folder
from lumicontainer.system.files.recipe_folder import files_below
from lumicontainer.system.terminal import masking

from ..cpu import within
from .conftest import Import, notes

DEFINITION = "Bootstrap: docker\nFrom: debian\n"
PASSWORD = "correct-horse-battery"


def written(draft: Draft) -> dict[str, str]:
    """Return the text of what a draft becomes, by file."""
    files = files_of(draft, "Dockerfile", ["python"], [], "debian")
    return {name: each.content.decode() for name, each in files.items()}


def missing(draft: Draft) -> list[str]:
    """Return what the recipe says that the image lacks."""
    lines: list[str] = yaml.safe_load(written(draft)["mine.yaml"])["missing"]
    return lines


ODD = {
    "an escape": ("Dockerfile", "FROM a\x1b[31mb\n"),
    "a C1 control": ("Dockerfile", "FROM a\x9bb\n"),
    "delete": ("Dockerfile", "FROM a\x7fb\n"),
    "an unassigned character": ("Dockerfile", "FROM a\ufffeb\n"),
    "a direction": ("Dockerfile", "FROM a\u202eb\n"),
    "a break of lines": ("Dockerfile", "FROM a\u2028b\n"),
    "NUL in a list": ("requirements.txt", "num\0py\n"),
    "an escape in YAML": ("environment.yml", 'dependencies:\n- "a\\eb"\n'),
}


@pytest.mark.parametrize("case", ODD)
def test_what_a_recipe_lacks_is_one_line_of_printable_text(imported: Import, case: str) -> None:
    lines = missing(imported(*ODD[case]))
    assert lines
    assert all(each.isprintable() for each in lines)


def test_what_a_recipe_lacks_holds_no_password(imported: Import) -> None:
    draft = imported("Dockerfile", f"FROM reg-https://me:{PASSWORD}@host/image\n")
    assert missing(draft)
    assert PASSWORD not in "".join(written(draft).values())


TOKEN = "hf_" + "aB3" * 11
TOKENS = (
    f"ENV HF_TOKEN={TOKEN}",
    f"ENV WANDB_API_KEY={PASSWORD}",
    f"ARG GITHUB_TOKEN={PASSWORD}",
    f"ARG X={TOKEN}",
    f'RUN curl -H "Authorization: Bearer {TOKEN}" https://host/x.tgz -o x.tgz',
)


@pytest.mark.parametrize("text", TOKENS)
def test_a_recipe_holds_no_token(dockerfile: Import, text: str) -> None:
    draft = dockerfile(text)
    assert notes(draft)
    assert [each for each in written(draft).values() if TOKEN in each or PASSWORD in each] == []


KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjE\n"
SECRETS = {
    "RUN export MY_PASSWORD=hunter2-horse && make": "hunter2-horse",
    "RUN MY_PASSWORD='hunter2-horse' make": "hunter2-horse",
    "RUN bash -c 'export MY_PASSWORD=hunter2-horse; make'": "hunter2-horse",
    "RUN huggingface-cli login --token hunter2-horse": "hunter2-horse",
    "RUN echo machine a login b password horse9 > ~/.netrc": "horse9",
    "RUN cat > ~/.netrc <<EOF\nmachine a login b password horse9\nEOF": "horse9",
    "RUN echo machine horse9 | tee /root/.git-credentials": "horse9",
    "COPY <<EOF /root/.netrc\nmachine a password horse9\nEOF": "horse9",
    "COPY .netrc /root/.netrc": "horse9",
    "COPY .netrc /root/x": "horse9",
    "COPY key /root/.ssh/id_rsa": "BEGIN",
    "COPY key /opt/key": "BEGIN",
    "COPY . /opt/code": "horse9",
    "ADD set.env /opt/": "hunter2-horse",
}


@pytest.fixture
def unhidden() -> Iterator[None]:
    """Forget the secrets that a test hides."""
    yield
    masking._hidden.clear()


@pytest.mark.usefixtures("unhidden")
@pytest.mark.parametrize("text", SECRETS)
def test_no_line_carries_a_secret_into_a_recipe(dockerfile: Import, text: str) -> None:
    files = {".netrc": "machine a password horse9\n", "key": KEY, "plain.py": "x = 1\n"}
    draft = dockerfile(text, **files, **{"set.env": "MY_PASSWORD=hunter2-horse\n"})
    assert any("--secret id=ID,src=FILE" in each for each in notes(draft))
    kept = {**written(draft), **{name: str(each.content) for name, each in draft.files.items()}}
    assert [name for name, each in kept.items() if SECRETS[text] in each] == []
    assert ("files/plain.py" in draft.files) == (text == "COPY . /opt/code")


@pytest.mark.slow
@pytest.mark.usefixtures("unhidden")
@pytest.mark.parametrize(
    "text",
    [
        "RUN export HF_TOKEN_PATH=/run/token && make",
        "RUN export PASSWORD=$GIVEN && make",
        "RUN make KEY=value TOKENIZERS_PARALLELISM=false",
        "RUN rm -f ~/.netrc",
        "COPY plain.py /opt/",
    ],
)
def test_a_line_without_a_secret_is_carried(dockerfile: Import, text: str) -> None:
    assert notes(dockerfile(text, **{"plain.py": "TOKEN = 'abcdefg'\n"})) == []


@pytest.mark.parametrize("name", ["Dockerfile", "a.def", "environment.yml", "pyproject.toml"])
def test_a_file_with_nul_is_no_text(imported: Import, name: str) -> None:
    with pytest.raises(InputError, match="got a NUL character"):
        imported(name, "a\nb\0c\n")


@pytest.mark.parametrize("text", ['COPY ["a","/\\ud800"]', 'RUN ["pip","install","\\ud800"]'])
def test_half_of_a_surrogate_pair_is_no_word(dockerfile: Import, text: str) -> None:
    assert written(dockerfile(text, a="x"))


@pytest.mark.parametrize("text", ["ARG A..B=c", "ARG 1A=b"])
def test_a_parameter_has_the_name_of_a_variable(dockerfile: Import, text: str) -> None:
    draft = dockerfile(text)
    assert draft.parameters == {}
    assert notes(draft) == ["a parameter cannot have this name or value"]


def test_a_variable_has_no_value_that_a_layer_cannot_hold(imported: Import) -> None:
    draft = imported("environment.yml", 'dependencies: [pip]\nvariables: {A: "\\0"}\n')
    assert draft.environment == {}


@pytest.mark.parametrize("text", ["COPY sub /app", "COPY . /app", "COPY sub/* /app/"])
@pytest.mark.parametrize("name", [b"a\xff.py", b"a\nb.py", b"{{ A }}.py"])
def test_a_name_that_no_definition_can_hold_is_not_copied(
    dockerfile: Import, tmp_path: Path, text: str, name: bytes
) -> None:
    folder = os.fsencode(tmp_path / "sub")
    Path(os.fsdecode(folder)).mkdir()
    Path(os.fsdecode(folder + b"/" + name)).touch()
    draft = dockerfile(text)
    assert draft.files == {}
    assert notes(draft)
    assert written(draft)


LONG = "9" * 300


@pytest.mark.parametrize(
    "text",
    [
        f"COPY {LONG} /x",
        f"COPY a/{LONG}/b /x",
        f"RUN pip install -r {LONG}",
        f"RUN pip install ./{LONG}",
        f"RUN --mount=type=bind,source={LONG},target=/m pip install -r /m/x",
    ],
)
def test_a_name_that_is_too_long_for_a_file_names_none(dockerfile: Import, text: str) -> None:
    assert notes(dockerfile(text))


LOCK: dict[str, Any] = {
    "name": '"numpy"',
    "version": '"1.0"',
    "source": '{ git = "https://host/a#b" }',
    "dependencies": '[{ name = "numpy", version = "1.0", marker = "os_name" }]',
    "resolution-markers": '["os_name"]',
}
OTHERS = (
    "1",
    "[1]",
    "{ a = 1 }",
    "{ git = 1 }",
    "[{ name = 1 }]",
    "[{ name = 'numpy', version = 1 }]",
)


@pytest.mark.parametrize("key", LOCK)
@pytest.mark.parametrize("other", OTHERS)
def test_a_lock_of_uv_may_hold_values_of_other_types(
    imported: Import, key: str, other: str
) -> None:
    rows = "\n".join(f"{name} = {value}" for name, value in {**LOCK, key: other}.items())
    draft = imported("uv.lock", f'[[package]]\nname = "tqdm"\n[[package]]\n{rows}\n')
    assert {"tqdm"} <= {*draft.python}


def test_a_number_of_too_many_digits_is_no_toml(imported: Import) -> None:
    with pytest.raises(InputError, match="this is not TOML"):
        imported("pyproject.toml", f"a = {'9' * 5000}\n")


def test_stages_that_copy_from_each_other_are_followed_to_a_limit(imported: Import) -> None:
    stages = (f"FROM x AS s{n}\nCOPY --from=s{n - 1} /a /b\n" for n in range(900))
    with pytest.raises(InputError, match="50 nested stages"):
        imported("Dockerfile", "".join(stages))


PATTERNS = ("s/" + "*a" * 25 + "!", "**/" * 500 + "a", "/".join(["**", "a"] * 40) + "/b")


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_of_dockerignore_takes_no_long_time(
    dockerfile: Import, tmp_path: Path, pattern: str
) -> None:
    for name in ("s/" + "a" * 150, "a/" * 19 + "a"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    with within(5):
        dockerfile("COPY . /app", **{".dockerignore": f"{pattern}\n"})


def test_a_folder_of_much_data_is_not_copied(
    dockerfile: Import, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipe_folder, "MAX_FOLDER_BYTES", 1000)
    (tmp_path / "sub").mkdir()
    for name in "abc":
        (tmp_path / "sub" / name).write_bytes(bytes(400))
    assert "more than" in notes(dockerfile("COPY sub /app"))[0]
    problems = Problems()
    assert len([*files_below(tmp_path, "sub", problems)]) == 2
    assert problems.noted


@pytest.mark.slow
def test_copies_together_have_the_size_of_one_folder(dockerfile: Import, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(1 << 20))
    draft = dockerfile("COPY a /x\n" * 70)
    assert len(notes(draft)) == 70 - 64


@pytest.mark.slow
def test_a_layer_that_could_not_be_read_is_not_written(dockerfile: Import) -> None:
    draft = dockerfile(f"ENV A={'a' * 60_000}\n" + "".join(f"ENV B{n}=$A\n" for n in range(20)))
    with pytest.raises(InputError, match="cannot write a recipe"):
        written(draft)
