"""Packages in groups of commands: subshells, braces, loops, and scripts that a shell reads."""

import pytest

from lumicontainer.importing.draft import Draft

from ..conftest import Import


def missing(draft: Draft) -> list[str]:
    return [each.missing for each in draft.missing()]


@pytest.mark.parametrize(
    "command",
    [
        "(pip install polars rich)",
        "(cd /tmp && pip install polars rich) && echo done",
        "{ pip install polars; pip install rich; }",
        "( pip install polars && pip install rich ) || true",
        "for each in polars rich; do pip install $each; done",
        'for each in "polars" \'rich\'; do pip install --no-cache-dir "${each}"; done',
        "for each in polars rich; do (pip install $each); done",
        "set -e; for each in polars rich ; do \\\n  pip install $each ; \\\n done",
        "bash <<'EOF'\npip install polars\npip install rich\nEOF",
        "<<EOF bash\npip install polars\npip install rich\nEOF",
        "<<EOF /bin/bash -euxo pipefail\npip install polars\npip install rich\nEOF",
        "bash -e <<-EOF\n\tpip install polars\n\tpip install rich\n\tEOF",
    ],
)
def test_packages_of_a_group_are_carried(dockerfile: Import, command: str) -> None:
    draft = dockerfile(f"RUN {command}")
    assert (list(draft.python), missing(draft)) == (["polars", "rich"], [])


@pytest.mark.parametrize(
    "command",
    [
        "for each in $(cat names); do pip install $each; done",
        "for each in a* rich; do pip install $each; done",
        "for each in polars rich; do pip install $each || break; done",
        "while read each; do pip install $each; done <names",
        "if command -v nvcc; then pip install polars; fi",
        "(pip install polars) | grep -q rich || pip install rich",
        "bash <<EOF\npip install $each\nEOF",
        "( uv sync --frozen ) 2>&1 | tee log",
        "if [ -e poetry.lock ]; then poetry install; fi",
        "for each in a b; do uv sync; done",
        "(conda env create -f environment.yml)",
    ],
)
def test_a_group_that_is_not_sure_is_missing(dockerfile: Import, command: str) -> None:
    draft = dockerfile(f"RUN {command}")
    assert list(draft.python) == []
    assert draft.script == []
    assert missing(draft)


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "(cd /srv && touch a)",
        "for each in a b; do touch $each; done",
        "{ echo a; echo b; } >/srv/list",
        "bash <<'EOF'\ntouch a\nEOF",
    ],
)
def test_a_group_without_packages_stays_as_it_is(dockerfile: Import, command: str) -> None:
    draft = dockerfile(f"RUN {command}")
    assert command in draft.script[0]
    assert missing(draft) == []


@pytest.mark.parametrize("command", ["(cd / && pip install polars)", "(pip install polars)"])
def test_a_group_that_only_installs_leaves_no_script(dockerfile: Import, command: str) -> None:
    assert dockerfile(f"RUN {command}").script == []


def test_a_list_in_brackets_is_one_of_several_commands(dockerfile: Import) -> None:
    draft = dockerfile("RUN (pip uninstall -y rich || true) && pip install polars && touch /a")
    assert list(draft.python) == ["polars"]
    assert "touch /a" in draft.script[0]
    assert missing(draft) == []


def test_a_group_keeps_its_other_commands(dockerfile: Import) -> None:
    body = "(cd /srv && pip install polars && touch a)\nRUN { cd /mnt; pip install rich; touch b; }"
    draft = dockerfile(f"RUN {body}")
    assert list(draft.python) == ["polars", "rich"]
    script = "\n".join(draft.script)
    assert "(\ncd /srv\ntouch a\n)" in script
    assert "cd /mnt\ntouch b" in script


@pytest.mark.slow
def test_each_turn_of_a_loop_has_its_value(dockerfile: Import) -> None:
    draft = dockerfile("RUN for each in polars rich; do pip install $each && touch $each; done")
    script = draft.script[0]
    assert "each=polars\ntouch $each\neach=rich\ntouch $each" in script


def test_lines_of_a_group_are_named_by_their_numbers(dockerfile: Import) -> None:
    draft = dockerfile("RUN ( \\\n pip install polars && \\\n pip install torch-scatter )")
    numbers = {each.text: each.line for each in draft.lines}
    assert (numbers["polars"], numbers["torch-scatter"]) == (3, 4)


BUILDER = """FROM python:3.11 AS builder
RUN apt-get update && apt-get install -y build-essential && python -m venv /opt/venv
ENV PATH="/opt/venv/bin:$PATH"
WORKDIR /build
COPY requirements.txt .
RUN pip install --no-cache-dir -r requirements.txt && make tool
FROM python:3.11-slim
"""


@pytest.mark.parametrize(
    ("source", "start"),
    [
        ("/opt/venv /opt/venv", '["/opt/venv/bin/python", "train.py"]'),
        ("/usr/local/lib/python3.11/site-packages /usr/local/lib/python3.11/", "python train.py"),
        ("/root/.local /root/.local", '["python", "train.py"]'),
        ("/build/.venv/ /app/.venv", '["/app/.venv/bin/python", "train.py"]'),
    ],
)
def test_an_environment_of_another_stage_is_what_it_installs(
    imported: Import, source: str, start: str
) -> None:
    text = f"{BUILDER}COPY --from=builder {source}\nCMD {start}\n"
    draft = imported("Dockerfile", text, **{"requirements.txt": "polars\ntorch\nvllm\n"})
    assert (list(draft.python), list(draft.apt)) == (["polars"], [])
    assert "pytorch" in draft.layers
    assert missing(draft) == ["vllm"]
    assert (draft.script, draft.path) == ([], [])


def test_an_environment_that_is_copied_twice_is_read_once(imported: Import) -> None:
    copy = "COPY --from=builder /opt/venv /opt/venv\n"
    text = f"{BUILDER}{copy}{copy}"
    draft = imported("Dockerfile", text, **{"requirements.txt": "vllm\n"})
    assert [each.text for each in draft.lines].count("vllm") == 1


def test_another_folder_of_the_home_is_no_environment(imported: Import) -> None:
    text = f"{BUILDER}COPY --from=builder /root/.local/share/tool /root/.local/share/tool\n"
    draft = imported("Dockerfile", text, **{"requirements.txt": "polars\n"})
    assert list(draft.python) == []
    assert missing(draft) == ["/root/.local/share/tool of builder"]


def test_an_environment_of_a_stage_that_installs_nothing_is_missing(imported: Import) -> None:
    text = "FROM debian AS a\nRUN ./make-env\nFROM debian\nCOPY --from=a /opt/venv /opt/venv\n"
    draft = imported("Dockerfile", text)
    assert missing(draft) == ["COPY --from=a /opt/venv /opt/venv"]


@pytest.mark.parametrize(
    ("copy", "places"),
    [
        ("<<A <<B /srv/", ["/srv/A", "/srv/B"]),
        ("<<'A' other <<B /srv/x/", ["/srv/x/A", "/srv/x/other", "/srv/x/B"]),
    ],
)
def test_several_heredocs_are_copied_into_a_folder(
    dockerfile: Import, copy: str, places: list[str]
) -> None:
    draft = dockerfile(f"COPY {copy}\none\nA\ntwo\nB", other="three")
    assert [line.split()[-1] for line in draft.script] == places
    assert missing(draft) == []
    assert sorted(each.content for each in draft.files.values())[0] == b"one\n"


def test_wheels_of_another_stage_are_what_it_builds(imported: Import) -> None:
    text = (
        "FROM python AS builder\nCOPY requirements.txt .\n"
        "RUN pip wheel -w /wheels -r requirements.txt\nFROM python\n"
        "COPY --from=builder /wheels /wheels\n"
        "RUN pip install --no-index --find-links=/wheels polars mine && rm -rf /wheels\n"
        "RUN pip install /wheels/*.whl\n"
    )
    draft = imported("Dockerfile", text, **{"requirements.txt": "polars\nrich\n"})
    assert list(draft.python) == ["polars", "rich"]
    assert missing(draft) == ["mine"]


def test_a_package_of_a_folder_is_not_taken_from_an_index(dockerfile: Import) -> None:
    draft = dockerfile("RUN pip install --no-index -f /srv/wheels mine 'torch>=2'")
    assert (list(draft.python), draft.layers) == ([], {"pytorch"})
    assert "mine" in missing(draft)


def test_a_file_of_another_stage_does_not_take_its_folder_along(dockerfile: Import) -> None:
    lines = "WORKDIR /w\nCOPY --from=other /w/list.txt .\nRUN pip install -r list.txt"
    draft = dockerfile(f"{lines}\nRUN touch here\nCMD python go.py")
    assert missing(draft) == ["/w/list.txt of other"]
    assert "touch here" in draft.script[-1]


@pytest.mark.parametrize(
    "start",
    [
        "/opt/venv/bin/python go.py",
        "/srv/app/.venv/bin/python go.py",
        "/opt/conda/envs/py_3.10/bin/python go.py",
        "/opt/miniconda3/bin/python go.py",
    ],
)
def test_the_python_of_an_environment_is_the_images(dockerfile: Import, start: str) -> None:
    draft = dockerfile(f"ENV VIRTUAL_ENV=/opt/venv\nENTRYPOINT {start.split()!r}".replace("'", '"'))
    assert missing(draft) == []
    assert draft.lines[-1].note.endswith("-- python go.py")


def test_a_token_without_a_value_is_no_part_of_the_image(dockerfile: Import) -> None:
    draft = dockerfile("ARG HF_TOKEN\nENV HF_TOKEN=$HF_TOKEN WANDB_API_KEY= OTHER=")
    assert (draft.parameters, draft.environment) == ({}, {"OTHER": ""})
    assert missing(draft) == ["ARG HF_TOKEN"]


@pytest.mark.parametrize(
    ("image", "layers", "lacks"),
    [
        ("pytorch/pytorch:2.4.0", {"pytorch"}, []),
        ("python:3.11", {"python"}, []),
        (
            "example.org/team/trainer:1",
            set(),
            ["what the base image example.org/team/trainer:1 has"],
        ),
    ],
)
def test_an_environment_has_what_its_base_image_has(
    dockerfile: Import, image: str, layers: set[str], lacks: list[str]
) -> None:
    stage = f"FROM {image} AS builder\nRUN pip install polars\nFROM debian\n"
    draft = dockerfile(f"{stage}COPY --from=builder /opt/conda /opt/conda")
    assert list(draft.python) == ["polars"]
    assert draft.layers == layers
    assert missing(draft) == lacks
