"""Known bad combinations are reported before a build, and an error refuses it."""

import json
from pathlib import Path

import pytest

from ..conftest import CHECK
from .conftest import Hello, Run, refused, succeeded


def rules(level: str, when: str = "{greet.greeting: hello}") -> dict[str, str]:
    return {
        "rules.yaml": f"rules:\n  - id: no-hello\n    level: {level}\n    when: {when}\n"
        "    message: hello is not heard\n    reason: the hall is too large\n"
        "    source: a listener\n    hint: set greet.greeting to aloha\n"
    }


@pytest.mark.parametrize(("level", "code"), [("error", 1), ("warning", 0)])
def test_check_prints_place_reason_and_hint(
    lumicontainer: Run, hello: Hello, level: str, code: int
) -> None:
    done = lumicontainer("check", *hello(rules(level)))
    assert (done.returncode, done.stderr) == (code, "")
    assert f"{level}: hello is not heard [no-hello]\n" in done.stdout
    assert "greet.greeting hello (" in done.stdout
    assert "layers/greet/layer.yaml:3:" in done.stdout
    assert "why: the hall is too large (a listener)\n" in done.stdout
    assert "hint: set greet.greeting to aloha\n" in done.stdout


def test_what_nothing_states_is_not_known_and_not_passed(lumicontainer: Run, hello: Hello) -> None:
    when = '{greet.greeting: hello, driver: "<9"}'
    done = succeeded(lumicontainer("check", *hello(rules("error", when))))
    assert "not known: hello is not heard [no-hello]: no value of driver\n" in done.stdout
    assert " 1 not known" in done.stdout


@pytest.mark.parametrize(
    ("more", "code", "printed"),
    [
        ((), 1, ("no-hello (error, holds): hello is not heard\n", "source: a listener\n")),
        (
            ("--set", "greet.greeting=aloha"),
            0,
            ("no-hello (error, passed): hello is not heard\n", "no: greet.greeting aloha"),
        ),
    ],
    ids=["holds", "passed"],
)
def test_a_rule_is_explained_whether_it_holds_or_not(
    lumicontainer: Run, hello: Hello, more: tuple[str, ...], code: int, printed: tuple[str, ...]
) -> None:
    done = lumicontainer("check", *hello(rules("error")), "--explain", "no-hello", *more)
    assert done.returncode == code
    assert [text for text in printed if text not in done.stdout] == []


def test_check_as_json_reports_every_rule_and_its_facts(lumicontainer: Run, hello: Hello) -> None:
    done = lumicontainer("check", *hello(rules("error")), "--json")
    assert done.returncode == 1
    data = json.loads(done.stdout)
    assert (data["recipe"], data["platform"]) == ("hello", "workstation")
    by_id = {each["id"]: each for each in data["rules"]}
    assert by_id["no-hello"]["state"] == "holds"
    assert by_id["no-hello"]["when"][0]["found"][0]["value"] == "hello"
    assert by_id["rocm-above-driver"]["state"] == "passed"


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_a_build_refuses_what_is_known_to_be_bad_before_it_does_anything(
    lumicontainer: Run, hello: Hello, more: tuple[str, ...]
) -> None:
    # Without a place for builds nothing could begin.
    nowhere = {"LUMICONTAINER_TMPDIR": "/proc/self", "LUMICONTAINER_CACHE": "/proc/self"}
    done = lumicontainer("build", *hello(rules("error")), *more, env=nowhere)
    refused(done, "error: hello is not heard [no-hello]", "hint: set greet.greeting to aloha")


def test_a_build_prints_a_warning_once_and_goes_on(lumicontainer: Run, hello: Hello) -> None:
    done = succeeded(lumicontainer("build", *hello(rules("warning")), "--dry-run"))
    assert done.stderr.count("warning: hello is not heard [no-hello]") == 1
    assert "would build" in done.stdout


@pytest.mark.parametrize("verb", [["check"], ["build", "--dry-run"], ["render"]])
def test_scripts_that_cannot_be_parsed_are_named_with_their_line_and_not_run(
    lumicontainer: Run, hello: Hello, tmp_path: Path, verb: list[str]
) -> None:
    ran = tmp_path / "ran"
    scripts = {
        "layers/greet/install.sh": f"touch {ran}\nif true; then\n  echo x\n",
        "layers/greet/finish.sh": f"touch {ran}; echo 'open\n",
        "layers/greet/checks/shell.sh": f"{CHECK}touch {ran}; done\n",
        "layers/greet/checks/python.py": f"{CHECK}open({str(ran)!r}, 'w')\nif x:\n",
        "checks/of_all.sh": f"{CHECK}cat <<'EOF'\n",
    }
    words = hello(scripts)
    env = {"BASH_ENV": f"{words[-1]}/layers/greet/install.sh"}
    done = lumicontainer(*verb, *words, env=env)
    places = ("install.sh:4", "finish.sh:1", "shell.sh:5", "python.py:6", "of_all.sh:5")
    refused(done, *places)
    assert done.stderr.count("cannot parse the script") == len(scripts)
    assert not ran.exists()


def test_the_shipped_recipe_is_right_and_extglob_is_bash(lumicontainer: Run, hello: Hello) -> None:
    assert "0 errors, 0 warnings" in lumicontainer("check", "pytorch-deepspeed").stdout
    script = "shopt -s extglob\nrm -f /opt/!(kept|@(a|b))\n"
    assert lumicontainer("check", *hello({"layers/greet/install.sh": script})).returncode == 0
