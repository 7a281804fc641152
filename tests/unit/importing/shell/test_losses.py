"""Everything that an imported image lacks is named, and nothing else."""

from pathlib import Path

import pytest

from lumicontainer.importing.draft import Draft

from ..conftest import Import, notes, rows


def missing(draft: Draft) -> list[str]:
    """Return what the recipe names as missing."""
    return [each.missing for each in draft.missing()]


@pytest.mark.parametrize(
    ("target", "place"),
    [
        ("/srv", "/srv/data"),
        ("/var/lib/", "/var/lib/data"),
        ("/opt/src", "/opt/src"),
        ("/opt", "/opt/data"),
        ("/etc/cache", "/etc/cache"),
    ],
)
def test_a_folder_gets_into_one_that_each_image_has(
    imported: Import, tmp_path: Path, target: str, place: str
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a.txt").write_text("a")
    text = f"Bootstrap: docker\nFrom: ubuntu\n%files\n  data {target}\n"
    draft = imported("mine.def", text)
    assert f"mkdir -p {place}\n" in draft.script[0]


def test_a_pattern_of_a_definition_keeps_the_names_of_folders(
    imported: Import, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        (tmp_path / "parts" / name).mkdir(parents=True)
        (tmp_path / "parts" / name / "a.txt").write_text(name)
    text = "Bootstrap: docker\nFrom: ubuntu\n%files\n  parts/* /opt\n"
    script = "".join(imported("mine.def", text).script)
    assert "mkdir -p /opt/one\n" in script
    assert "mkdir -p /opt/two\n" in script


@pytest.mark.parametrize(
    "command", ["python3 setup.py --list {}", "grep -v x {} > own.txt", "sed -i s/a/b/ {}"]
)
@pytest.mark.parametrize("copy", ["COPY requirements.txt /lists/", "COPY . /lists"])
def test_what_uses_a_list_of_packages_is_missing(
    dockerfile: Import, copy: str, command: str
) -> None:
    command = command.format("/lists/requirements.txt")
    draft = dockerfile(f"{copy}\nRUN {command}", **{"requirements.txt": "rich\n"})
    assert missing(draft) == [command]


def test_what_only_looks_at_a_list_of_packages_is_not_needed(dockerfile: Import) -> None:
    text = "COPY requirements.txt .\nRUN cat requirements.txt\nRUN rm -f /requirements.txt"
    draft = dockerfile(text, **{"requirements.txt": "rich\n"})
    assert [outcome for _, outcome, _ in rows(draft)] == ["not needed"] * 3


def test_a_program_of_a_virtual_environment_is_not_there(dockerfile: Import) -> None:
    text = (
        "RUN python3 -m venv --copies /opt/env\nENV PATH=/opt/env/bin:$PATH\n"
        "RUN /opt/env/bin/pip install rich\nRUN /opt/env/bin/python -m rich\n"
        "RUN . /opt/env/bin/activate"
    )
    draft = dockerfile(text)
    assert [*draft.python] == ["rich"]
    assert missing(draft) == ["/opt/env/bin/python -m rich"]
    assert "write the program's plain name" in notes(draft)[0]
    assert not draft.path


def test_a_script_that_a_pipe_runs_is_no_other_of_its_name(dockerfile: Import) -> None:
    text = (
        "RUN curl -LsSf https://astral.sh/uv/install.sh | sh\n"
        "COPY install.sh /app/\nRUN bash /app/install.sh && cd /app && ./install.sh"
    )
    draft = dockerfile(text, **{"install.sh": "echo\n"})
    assert "bash /app/install.sh" in "".join(draft.script)
    assert "./install.sh" in "".join(draft.script)


def test_a_folder_brings_back_what_has_the_name_of_a_download(dockerfile: Import) -> None:
    text = (
        "RUN wget -O /tmp/setup.sh https://example.org/setup.sh\n"
        "COPY . /app\nWORKDIR /app\nRUN bash setup.sh"
    )
    draft = dockerfile(text, **{"setup.sh": "echo\n"})
    assert "bash setup.sh" in draft.script[-1]


@pytest.mark.parametrize(
    "command", ["make -C /app deps", "cd /app && make -j4", "make -f /app/Makefile"]
)
def test_a_makefile_of_the_folder_that_installs_is_not_run(
    dockerfile: Import, command: str
) -> None:
    files = {"Makefile": "deps:\n\tpip install rich\n"}
    draft = dockerfile(f"COPY . /app\nRUN {command}", **files)
    assert not any("make" in each for each in draft.script[1:])
    assert "Makefile installs or downloads in a form that is not read" in notes(draft)[0]


def test_packages_of_r_are_not_carried(dockerfile: Import) -> None:
    draft = dockerfile("RUN R -e \"install.packages('x')\"")
    assert missing(draft) == ["R -e \"install.packages('x')\""]


LOCK = """
version = 1
[[package]]
name = "mine"
source = { editable = "." }
dependencies = [{ name = "rich" }]
[[package]]
name = "rich"
version = "13.0"
source = { registry = "https://example.org/simple" }
"""


def test_a_stage_with_code_and_an_environment_gives_its_packages(imported: Import) -> None:
    text = (
        "FROM python AS builder\nWORKDIR /app\nCOPY . /app\nRUN uv sync --locked\n"
        "FROM debian\nCOPY --from=builder /app /app\nENV PATH=/app/.venv/bin:$PATH\n"
    )
    draft = imported("Dockerfile", text, **{"uv.lock": LOCK})
    assert [*draft.python] == ["rich==13.0"]
    assert missing(draft) == ["/app of builder, but for its virtual environment"]


@pytest.mark.parametrize(
    "command",
    [
        "python3 -m venv /opt/deps && /opt/deps/bin/pip install rich",
        "virtualenv -p python3.11 /opt/deps && . /opt/deps/bin/activate && pip install rich",
        "uv venv --seed /opt/deps && uv pip install --python /opt/deps/bin/python rich",
        "pip install --prefix=/opt/deps rich",
        "conda create -y -p /opt/deps python=3.11 rich",
    ],
)
def test_an_environment_of_another_stage_has_its_packages(imported: Import, command: str) -> None:
    text = (
        f"FROM python AS builder\nRUN {command}\nFROM debian\nCOPY --from=builder /opt/deps /usr\n"
    )
    draft = imported("Dockerfile", text)
    assert ([*draft.python], missing(draft)) == (["rich"], [])


@pytest.mark.parametrize("value", ["$(date)", "`date`"])
def test_a_variable_with_a_command_is_missing(dockerfile: Import, value: str) -> None:
    draft = dockerfile(f'ENV BUILT="{value}"')
    assert (draft.environment, len(missing(draft))) == ({}, 1)


@pytest.mark.parametrize(
    "command",
    [
        'for v in 1 2; do pip install "rich$v"; done',
        "wget https://example.org/data.tar",
        "(cd /opt && git clone https://example.org/own/tool && make -C tool)",
        "pip install -r https://example.org/list.txt",
        "true && if true; then mim install mmcv; fi",
    ],
)
def test_what_more_a_line_of_a_lost_folder_adds_is_missing(
    dockerfile: Import, command: str
) -> None:
    draft = dockerfile(f"WORKDIR $NOT_KNOWN/x\nRUN {command}")
    assert len(missing(draft)) == 2


def test_a_folder_that_is_not_needed_may_install_what_is(dockerfile: Import) -> None:
    text = (
        "RUN git clone https://github.com/ofiwg/libfabric.git && cd libfabric && make install "
        "&& if true; then pip install rich; fi"
    )
    assert missing(dockerfile(text)) == ["if true; then pip install rich; fi"]


@pytest.mark.slow
def test_a_program_in_a_variable_is_not_lost_without_a_word(dockerfile: Import) -> None:
    draft = dockerfile("RUN P=$(which pip) && $P install rich")
    assert missing(draft) == ["$P install rich"]


def test_a_link_that_is_not_made_is_no_other_program(dockerfile: Import) -> None:
    text = "RUN ln -s /opt/conda/bin/pip /usr/bin/own-pip\nRUN P=pip && $P install rich"
    draft = dockerfile(text)
    assert [*draft.python] == ["rich"]
    assert missing(draft) == ["ln -s /opt/conda/bin/pip /usr/bin/own-pip"]


def test_a_variable_that_keeps_the_value_of_the_base_is_not_needed(dockerfile: Import) -> None:
    assert missing(dockerfile("ENV A=$A B=${B}")) == []


def test_a_copy_of_the_whole_folder_has_no_other_files(dockerfile: Import) -> None:
    text = "COPY <<'EOT' /conf/app.ini\nseed = 1\nEOT\nCOPY . /all"
    draft = dockerfile(text, **{"run.sh": "echo\n"})
    assert "cp -r files/. /all" in "".join(draft.script)
    copied = [name for name in draft.files if name.startswith("files/")]
    assert sorted(copied) == ["files/Dockerfile", "files/run.sh"]


@pytest.mark.parametrize("file", ["$SINGULARITY_LABELS", '"${APPTAINER_LABELS}"'])
def test_labels_are_not_written(imported: Import, file: str) -> None:
    text = f"Bootstrap: docker\nFrom: debian\n%post\n  echo made $(date) >> {file}\n"
    draft = imported("mine.def", text)
    assert (draft.script, missing(draft)) == ([], [])


def test_a_variable_is_exported_after_it_is_set(imported: Import) -> None:
    text = "Bootstrap: docker\nFrom: debian\n%environment\n  APP=/opt/app\n  export APP\n"
    draft = imported("mine.def", text)
    assert (draft.environment, missing(draft)) == ({"APP": "/opt/app"}, [])
