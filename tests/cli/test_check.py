"""What is known to be bad is said before it is built, and an error refuses the build."""

import json
from pathlib import Path

import pytest

from ..conftest import CHECK, HELLO, Write
from .conftest import Run


def rules(level: str, when: str = "{greet.greeting: hello}") -> str:
    return (
        f"rules:\n  - id: no-hello\n    level: {level}\n    when: {when}\n"
        "    message: hello is not heard\n    reason: the hall is too large\n"
        "    source: a listener\n    hint: set greet.greeting to aloha\n"
    )


@pytest.mark.parametrize(("level", "code"), [("error", 1), ("warning", 0)])
def test_check_says_what_is_wrong_where_why_and_the_hint(
    lumicontainer: Run, write: Write, level: str, code: int
) -> None:
    folder = write({**HELLO, "rules.yaml": rules(level)})
    done = lumicontainer("check", "hello", "--recipes", folder)
    assert done.returncode == code
    assert done.stderr == ""
    assert f"{level}: hello is not heard [no-hello]\n" in done.stdout
    assert "greet.greeting hello (" in done.stdout
    assert "layers/greet/layer.yaml:3:" in done.stdout
    assert "why: the hall is too large (a listener)\n" in done.stdout
    assert "hint: set greet.greeting to aloha\n" in done.stdout


def test_what_nothing_states_is_not_known_and_not_passed(lumicontainer: Run, write: Write) -> None:
    when = '{greet.greeting: hello, driver: "<9"}'
    folder = write({**HELLO, "rules.yaml": rules("error", when)})
    done = lumicontainer("check", "hello", "--recipes", folder)
    assert done.returncode == 0
    assert "not known: hello is not heard [no-hello]: no value of driver\n" in done.stdout
    assert " 1 not known" in done.stdout


def test_a_rule_is_explained_whether_it_holds_or_not(lumicontainer: Run, write: Write) -> None:
    words = ("check", "hello", "--recipes", write({**HELLO, "rules.yaml": rules("error")}))
    done = lumicontainer(*words, "--explain", "no-hello")
    assert done.returncode == 1
    assert "no-hello (error, holds): hello is not heard\n" in done.stdout
    assert "source: a listener\n" in done.stdout
    hinted = (*words, "--set", "greet.greeting=aloha")
    done = lumicontainer(*hinted, "--explain", "no-hello")
    assert done.returncode == 0
    assert "no-hello (error, passed): hello is not heard\n" in done.stdout
    assert "no: greet.greeting aloha" in done.stdout
    done = lumicontainer(*hinted)
    assert done.returncode == 0
    assert "hello for workstation: 0 errors, 0 warnings" in done.stdout
    done = lumicontainer(*words, "--explain", "no-helo")
    assert done.returncode == 2
    assert "did you mean 'no-hello'?" in done.stderr


def test_check_as_json_reports_every_rule_and_what_was_found(
    lumicontainer: Run, write: Write
) -> None:
    folder = write({**HELLO, "rules.yaml": rules("error")})
    done = lumicontainer("check", "hello", "--recipes", folder, "--json")
    assert done.returncode == 1
    data = json.loads(done.stdout)
    assert (data["recipe"], data["platform"]) == ("hello", "workstation")
    by_id = {each["id"]: each for each in data["rules"]}
    assert by_id["no-hello"]["state"] == "holds"
    assert by_id["no-hello"]["when"][0]["found"][0]["value"] == "hello"
    assert by_id["rocm-above-driver"]["state"] == "passed"


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_a_build_refuses_what_is_known_to_be_bad_before_it_does_anything(
    lumicontainer: Run, write: Write, more: tuple[str, ...]
) -> None:
    folder = write({**HELLO, "rules.yaml": rules("error")})
    # Without a place for builds nothing could begin.
    nowhere = {"LUMICONTAINER_TMPDIR": "/proc/self", "LUMICONTAINER_CACHE": "/proc/self"}
    done = lumicontainer("build", "hello", "--recipes", folder, *more, env=nowhere)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "error: hello is not heard [no-hello]" in done.stderr
    assert "hint: set greet.greeting to aloha" in done.stderr


def test_a_build_prints_a_warning_once_and_goes_on(lumicontainer: Run, write: Write) -> None:
    folder = write({**HELLO, "rules.yaml": rules("warning")})
    done = lumicontainer("build", "hello", "--recipes", folder, "--dry-run")
    assert done.returncode == 0
    assert done.stderr.count("warning: hello is not heard [no-hello]") == 1
    assert "would build" in done.stdout


@pytest.mark.parametrize("verb", [["check"], ["build", "--dry-run"]])
def test_scripts_that_cannot_be_parsed_are_named_with_their_line_and_not_run(
    lumicontainer: Run, write: Write, tmp_path: Path, verb: list[str]
) -> None:
    ran = tmp_path / "ran"
    scripts = {
        "layers/greet/install.sh": f"touch {ran}\nif true; then\n  echo x\n",
        "layers/greet/finish.sh": f"touch {ran}; echo 'open\n",
        "layers/greet/checks/shell.sh": f"{CHECK}touch {ran}; done\n",
        "layers/greet/checks/python.py": f"{CHECK}open({str(ran)!r}, 'w')\nif x:\n",
        "checks/of_all.sh": f"{CHECK}cat <<'EOF'\n",
    }
    folder = write({**HELLO, **scripts})
    env = {"BASH_ENV": str(folder / "layers/greet/install.sh")}
    done = lumicontainer(verb[0], "hello", *verb[1:], "--recipes", folder, env=env)
    assert done.returncode == 2
    for place in ("install.sh:4", "finish.sh:1", "shell.sh:5", "python.py:6", "of_all.sh:5"):
        assert place in done.stderr, done.stderr
    assert done.stderr.count("cannot parse the script") == len(scripts)
    assert not ran.exists()


def test_wrong_rules_are_reported_with_their_place(lumicontainer: Run, write: Write) -> None:
    folder = write({**HELLO, "rules.yaml": rules("error", "{gret.greeting: hello}")})
    done = lumicontainer("check", "hello", "--recipes", folder)
    assert done.returncode == 2
    assert "rules.yaml:4:12" in done.stderr
    assert "did you mean 'greet'?" in done.stderr


def test_the_shipped_recipe_has_no_known_problem_and_scripts_may_use_extglob(
    lumicontainer: Run, write: Write
) -> None:
    done = lumicontainer("check", "pytorch-deepspeed")
    assert "0 errors, 0 warnings" in done.stdout
    script = "shopt -s extglob\nrm -f /opt/!(kept|@(a|b))\n"
    folder = write({**HELLO, "layers/greet/install.sh": script})
    assert lumicontainer("check", "hello", "--recipes", folder).returncode == 0
