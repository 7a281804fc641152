"""Lines of other tools' files become what they mean there, or are reported as not carried."""

import re
from pathlib import Path

import pytest

from lumicontainer.errors import InputError
from lumicontainer.importing.draft import Draft, Goal
from lumicontainer.importing.read import reader_of

from .conftest import Import, notes, rows

ONE = "an unquoted heredoc's '$' and backslashes are Docker's: quote its word, or copy a file"
EXPANSION = "it has an expansion whose value is not known"
URL = "https://u:a-secret-word@h.example/f.tgz"
MANY = "several files need a folder: end its name with '/'"


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "echo $((1<<3)) >/opt/n",
        "echo $((1 <<3)) >/opt/n",
        "cat <<<word",
        "echo '<<EOF'",
        'echo "a <<EOF b"',
        "echo a<<EOF",
    ],
)
def test_what_is_not_a_heredoc_ends_with_its_line(dockerfile: Import, command: str) -> None:
    outcomes = rows(dockerfile(f"RUN {command}\nRUN echo hi >/opt/h\nENV A=b"))
    assert outcomes[0][2] == command
    assert outcomes[1:] == [(3, "carried", "echo hi >/opt/h"), (4, "carried", "A=b")]


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "python3 <<EOF\nimport os\nEOF",
        "cat <<EOF >/etc/foo.conf\nmkdir -p /opt/zz\nEOF",
        "cat <<'EOF' >/x && touch /y\n  EOF\n\tEOF\n$A\nEOF",
        "cat <<-EOF >/x; touch /y\n  EOF\nEOF",
        "cat <<A-B <<\\C.D >/x\nA\nA-B\nid\nC.D",
    ],
)
def test_a_command_keeps_its_heredoc(imported: Import, command: str) -> None:
    post = "".join(f"{line}\n" for line in command.split("\n"))
    docker = imported("Dockerfile", f"FROM debian\nRUN {command}\nRUN id\n")
    after = 3 + command.count("\n")
    assert rows(docker) == [(2, "carried", command), (after, "carried", "id")]
    assert f"(\ncd /\n{command}\n)" in docker.script[0]
    apptainer = imported("a.def", f"Bootstrap: docker\nFrom: debian\n%post\n{post}id\n")
    assert rows(apptainer)[1:] == [(4, "carried", command), (after + 2, "carried", "id")]


def test_a_heredoc_alone_is_a_script(dockerfile: Import) -> None:
    draft = dockerfile("RUN --mount=type=cache,target=/c \\\n  <<-'EOF'\n\tmkdir /a\n\tid\n\tEOF")
    assert rows(draft) == [(4, "carried", "mkdir /a"), (5, "carried", "id")]


def test_a_script_of_another_language_is_not_carried(dockerfile: Import) -> None:
    draft = dockerfile("RUN <<EOF\n#!/usr/bin/env python3\nimport os\nEOF\nRUN id")
    assert rows(draft) == [(2, "not carried", "RUN <<EOF"), (6, "carried", "id")]
    assert notes(draft) == ["it is a script of '/usr/bin/env python3', not of a shell"]


@pytest.mark.slow
def test_a_heredoc_without_an_end_leaves_the_next_lines(dockerfile: Import) -> None:
    draft = dockerfile("RUN cat <<EOF\nENV A=b")
    assert rows(draft) == [(2, "not carried", "cat <<EOF"), (3, "carried", "A=b")]


@pytest.mark.parametrize(
    ("text", "content", "target"),
    [
        ("<<EOF /etc/a\nx\n EOF\nEOF", b"x\n EOF\n", "/etc/a"),
        ("<<-'EOF' /etc/a\n\tx $A \\\n\tEOF", b"x $A \\\n", "/etc/a"),
        ("<<name /etc/\nx\nname", b"x\n", "/etc/name"),
    ],
)
def test_a_copied_heredoc_is_a_file(
    dockerfile: Import, text: str, content: bytes, target: str
) -> None:
    draft = dockerfile(f"COPY {text}\nENV A=b")
    assert [outcome for _, outcome, _ in rows(draft)] == ["carried", "carried"]
    assert [each.content for each in draft.files.values()] == [content]
    assert draft.script[0].endswith(f" {target}\n")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("<<EOF /etc/a\nv=$V\nEOF", ONE),
        ("<<EOF /etc/a\na \\n\nEOF", ONE),
        ("<<a <<b /d\n1\na\n2\nb", MANY),
    ],
)
def test_a_heredoc_that_docker_would_change_is_not_carried(
    dockerfile: Import, text: str, why: str
) -> None:
    draft = dockerfile(f"COPY {text}\nENV A=b")
    assert [outcome for _, outcome, _ in rows(draft)] == ["not carried", "carried"]
    assert notes(draft) == [why]
    assert draft.files == {}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("A_PATH=/opt/b\nENV A_PATH=/opt/a${A_PATH:+:${A_PATH}}", "/opt/a:/opt/b"),
        ("A_PATH=/opt/b\nENV A_PATH=/opt/a:$A_PATH", "/opt/a:/opt/b"),
        ("A_PATH=${B_PATH:-/opt/a}", "/opt/a"),
        ("B=b\nENV A_PATH=/x${B:+/$B}:${C:-/${B}}", "/x/b:/b"),
    ],
)
def test_a_path_is_extended(dockerfile: Import, text: str, value: str) -> None:
    draft = dockerfile(f"ENV {text}")
    assert notes(draft) == []
    assert draft.environment["A_PATH"] == value


@pytest.mark.parametrize(
    "text",
    [
        "A=a${B:+x}",
        "A=${B:+${C}}x",
        "A=${B:?none}",
        "A=${B##*/}",
        "A_PATH=/a:${B:+/x}:/b",
        "A_PATH=/a${B_PATH:+:$B_PATH}",
        "PATH=${B%/x}/bin:$PATH",
    ],
)
def test_an_expansion_without_a_known_value_is_not_carried(dockerfile: Import, text: str) -> None:
    draft = dockerfile(f"ENV {text}")
    assert (rows(draft), notes(draft)) == ([(2, "not carried", text)], [EXPANSION])
    assert (draft.environment, draft.path) == ({}, [])


def test_a_copy_to_an_unknown_place_is_not_carried(dockerfile: Import) -> None:
    draft = dockerfile("COPY a /opt/${B:+x}/", a="")
    assert notes(draft) == ["it has a variable without a known value"]


def test_variables_of_a_definition_are_expanded_as_in_a_dockerfile(imported: Import) -> None:
    draft = imported(
        "a.def",
        "Bootstrap: docker\nFrom: debian\n%environment\n"
        "    export LD_LIBRARY_PATH=/opt/a${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}\n"
        "    export PATH=/opt/a/bin${PATH:+:${PATH}}\n"
        "    export A=a${B:+x} B_PATH=${C:+/c}\n",
    )
    assert (draft.environment, draft.prepend) == ({}, {"LD_LIBRARY_PATH": ["/opt/a"]})
    assert draft.path == ["/opt/a/bin"]
    assert [text for _, outcome, text in rows(draft) if outcome == "not carried"] == [
        "A=a${B:+x}",
        "B_PATH=${C:+/c}",
    ]


@pytest.mark.parametrize("text", ["ADD a", "COPY []", "COPY", "ENV", "RUN", "RUN # x"])
def test_an_instruction_that_names_nothing_is_reported(dockerfile: Import, text: str) -> None:
    assert rows(dockerfile(text)) == [(2, "not carried", text)]


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.yml", "dependencies: []\n? [a, b]\n: c\n", "a.yml:2:3"),
        ("a.yml", "dependencies: []\nvariables:\n  ? [a]\n  : c\n", "a.yml:3:5"),
        ("a.yml", "[" * 2000, "a.yml:1:"),
        ("Dockerfile", 'ARG A="x\nFROM debian\n', "Dockerfile:1:1"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_at_its_place(
    imported: Import, name: str, text: str, says: str
) -> None:
    with pytest.raises(InputError, match=re.escape(says)):
        imported(name, text)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "CMD [1, [2]]",
        "CMD null",
        "CMD []",
        "RUN " + "[" * 20000,
        "RUN pip install[ a",
        "RUN pip 'install a'",
    ],
)
def test_a_command_of_another_kind_is_reported(dockerfile: Import, text: str) -> None:
    assert len(rows(dockerfile(text))) == 1


def test_a_copy_has_the_mode_that_is_asked_for(dockerfile: Import) -> None:
    draft = dockerfile(
        "COPY --chmod=755 run.sh /usr/local/bin/run\nCOPY --link --chmod=0600 run.sh /opt/\n"
        "COPY --chmod=640 <<EOF /etc/a\nx\nEOF",
        **{"run.sh": "id\n"},
    )
    assert [re.split(" (?:files|texts)/", each)[0] for each in draft.script] == [
        "install -D -m 755",
        "install -D -m 600",
        "install -D -m 640",
    ]


def test_the_files_of_a_copied_folder_have_the_mode(dockerfile: Import, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/a b").write_text("id\n")
    draft = dockerfile("COPY --chmod=755 bin /opt/bin")
    assert draft.script[0].splitlines()[-1] == "chmod 755 '/opt/bin/a b'"


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("--chmod=u+x", "the mode 'u+x' is not of octal digits"),
        ("--chmod=$M", "the mode '$M' is not of octal digits"),
        ("--parents", "the option '--parents' of COPY has no counterpart"),
        ("--exclude=*.pt", "the option '--exclude' of COPY has no counterpart"),
    ],
)
def test_an_option_that_changes_a_copy_is_not_ignored(
    dockerfile: Import, option: str, why: str
) -> None:
    draft = dockerfile(f"COPY {option} run.sh /opt/", **{"run.sh": "id\n"})
    assert (notes(draft), draft.files) == ([why], {})


def test_a_base_without_a_name_is_not_carried(imported: Import) -> None:
    assert notes(imported("Dockerfile", "FROM\n"))[0].startswith("unknown base image")


def test_instruction_names_end_at_any_blank(imported: Import) -> None:
    text = "FROM\tdebian\tAS\ta\nRUN\tapt-get install\tjq\nFROM\ta\nENV\tA=b\n"
    draft = imported("Dockerfile", text)
    assert rows(draft) == [(2, "carried", "apt jq"), (4, "carried", "A=b")]


def test_section_names_and_files_end_at_any_blank(imported: Import) -> None:
    text = "Bootstrap: docker\nFrom: debian\n%files\n\ta\t/opt/b\n%post\t-c /bin/bash\nid\n"
    draft = imported("a.def", text, a="x")
    assert rows(draft)[1:] == [(4, "carried", "a\t/opt/b"), (6, "carried", "id")]
    assert draft.script[0].endswith(" /opt/b\n")


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash -e", "/usr/bin/env bash", "bash"])
def test_shell_of_any_name_is_read(imported: Import, shell: str) -> None:
    draft = imported("a.def", f"Bootstrap: docker\nFrom: debian\n%post -c {shell}\nid\n")
    assert rows(draft)[1:] == [(4, "carried", "id")]


def test_text_for_another_program_is_not_carried(imported: Import) -> None:
    text = (
        "Bootstrap: docker\nFrom: debian\n%post -c /usr/bin/python3\nimport os\n"
        "%runscript\n#!/usr/bin/python3\nimport os\n"
    )
    draft = imported("a.def", text)
    assert rows(draft)[1:] == [
        (3, "not carried", "%post -c /usr/bin/python3"),
        (5, "not carried", "%runscript"),
    ]
    assert {*notes(draft)} == {"it is a script of '/usr/bin/python3', not of a shell"}


def test_a_start_is_its_first_command(imported: Import) -> None:
    text = (
        "Bootstrap: docker\nFrom: debian\n%runscript\n#!/bin/bash\n\n# note\n  exec train $@\n"
        "%startscript\n# none\n"
    )
    notes = [each.note for each in imported("a.def", text).lines[1:]]
    assert notes == ["lumicontainer run mine.sif -- train", "it starts nothing"]


def test_an_empty_command_starts_nothing(dockerfile: Import) -> None:
    assert rows(dockerfile("CMD []")) == [(2, "not needed", "CMD []")]


@pytest.mark.parametrize(
    "text",
    [
        f"RUN curl -O {URL}",
        f"RUN pip install {URL}",
        f"ADD {URL} /opt/",
        f"ENV A={URL}",
        f"ARG A={URL}",
        f"ENV A_PATH={URL}",
    ],
)
def test_a_password_in_a_url_is_written_nowhere(dockerfile: Import, text: str) -> None:
    draft = dockerfile(text)
    assert [outcome for _, outcome, _ in rows(draft)] == ["not carried"]
    assert all(each["url"] == "https://h.example/f.tgz" for each in draft.to_pin)
    assert (draft.environment, draft.parameters) == ({}, {})


def test_the_folder_of_a_file_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own/Dockerfile").write_text("FROM debian\nCOPY . /app\n")
    (tmp_path / "link").symlink_to("own")
    draft = Draft(tmp_path / "link", Goal("cpu", "debian bookworm", "3.11"), "mine")
    reader_of(Path("Dockerfile"))(draft, "Dockerfile")
    assert rows(draft) == [(2, "carried", "COPY . /app")]
