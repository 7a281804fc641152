"""The reason why no versions fit, or why uv cannot choose them, is named with a way out."""

import pytest

from lumicontainer.extending.resolving import conflicts
from lumicontainer.extending.resolving.resolution import Question, Refusal

from ...host.test_registry import Answer, answering
from .folder_index import Index

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("line", "what", "says"),
    [
        ("nosuch", "package 'nosuch' not found", "correct the name"),
        ("top==9", "no release of top meets 'top==9'", "the newest is 2.0"),
        ("top>2", "no release of top meets 'top>2'", "name one to get it: top==3.0rc1"),
        ("broken", "cannot build broken 1.0 in the image", "no_such_module"),
        ("clash", "the wanted packages do not fit the image", "needs base <2; the image has 2.0"),
    ],
)
def test_the_headline_names_the_cause(index: Index, line: str, what: str, says: str) -> None:
    index.wheel("top", "2.0")
    index.wheel("top", "3.0rc1")
    index.source("broken", "1.0", module="no_such_module")
    index.wheel("clash", "1.0", "base<2")
    index.wheel("base", "1.0")
    (problem,) = index.refused("top", line)
    assert what in problem.what
    assert says in f"{problem.why} {problem.hint}"


def test_an_index_that_cannot_be_reached_is_no_conflict(index: Index) -> None:
    text = "error: Request failed after 3 retries\n  cause: Failed to fetch: http://x.invalid/a/\n"
    resolution, question = index.resolution(), Question(["top"])
    error = conflicts.explain(resolution, question, Refusal(2, text))
    (problem,) = error.problems
    assert (error.code, problem.what) == (6, "cannot reach an index of packages")
    assert problem.hint.endswith("(pip config list) and in files of requirements")


@pytest.mark.parametrize(
    ("status", "text", "why"),
    [
        (137, "", "ended by SIGKILL"),
        (137, "Resolving dependencies...", "ended by SIGKILL\nResolving dependencies..."),
        (2, "", "exit code 2"),
    ],
)
def test_a_build_that_ends_uv_is_no_bug(index: Index, status: int, text: str, why: str) -> None:
    resolution, question = index.resolution(), Question(["top"])
    error = conflicts.explain(resolution, question, Refusal(status, text))
    (problem,) = error.problems
    assert (error.code, problem.what, problem.why) == (5, "uv ended before it chose versions", why)


@pytest.mark.parametrize("name", ["a-", "aé", "-a", "a" * 100_000])
def test_a_build_names_no_package_that_could_not_be(index: Index, name: str) -> None:
    resolution, question = index.resolution(), Question(["top"])
    text = f"error: it failed\n{name} was not found in the package registry\n"
    error = conflicts.explain(resolution, question, Refusal(1, text))
    assert error.code == 2


def test_a_long_message_of_a_build_is_cut(index: Index) -> None:
    resolution, question = index.resolution(), Question(["top"])
    text = f"error: Failed to build `evil==1.0`\n{'z' * 5_000_000}"
    refusal = Refusal(1, text)
    (problem,) = conflicts.explain(resolution, question, refusal).problems
    assert problem.what == "cannot build evil 1.0 in the image"
    assert len(problem.why) < 50_000
    assert len(refusal.text) < 2_000_000


def test_a_file_that_cannot_be_reached_is_no_index(index: Index) -> None:
    url = "https://127.0.0.1:1/top-1.0-py3-none-any.whl"
    resolution, question = index.resolution(), Question([f"top @ {url}#sha256={'0' * 64}"])
    text = f"error: Failed to download `top @ {url}`\n  cause: Failed to fetch: {url}\n"
    error = conflicts.explain(resolution, question, Refusal(2, text))
    (problem,) = error.problems
    assert (error.code, problem.what, problem.where) == (6, "cannot download a package", url)
    assert "index" not in problem.hint


@pytest.mark.parametrize("code", [401, 403])
def test_an_index_that_lets_nobody_in_has_not_lost_the_package(index: Index, code: int) -> None:
    with answering((Answer(code),), []) as host:
        resolution = index.resolution(pip={"index-url": f"http://{host}/simple"})
        question = Question(["top"])
        with pytest.raises(Refusal) as refusal:
            resolution.lock(question)
        error = conflicts.explain(resolution, question, refusal.value)
    (problem,) = error.problems
    assert (error.code, problem.what) == (6, "no access to an index of packages")
    assert f"{host}/simple" in problem.why and str(code) in problem.why
    assert problem.hint.startswith("put the password into ~/.netrc")
