"""The plugin of pytest: an image's checks are items, and a user's tests run commands in it."""

from pathlib import Path

import pytest

pytest_plugins = ("pytester",)

SMOKE = """
def test_a_command(lumi_image):
    words = ("python3", "-c", "import os, sys; print(os.environ['WORD']); sys.exit(3)")
    done = lumi_image.run(*words, env={"WORD": "it's $(id), and \\"more\\""})
    assert (done.returncode, done.stdout) == (3, "it's $(id), and \\"more\\"\\n")
    assert lumi_image.run("sh", "-c", "echo $PROOF; echo no >&2").stderr.endswith("no\\n")
"""


def test_checks_are_items_with_their_outcomes(pytester: pytest.Pytester, proof: Path) -> None:
    names = "pictures or gpu or fails or broken"
    words = ("--lumi-image", proof, "--lumi-level", "full", "-k", names, "-rsfE")
    done = pytester.runpytest_subprocess(*words)
    done.assert_outcomes(passed=1, skipped=1, failed=1, errors=1)
    done.stdout.fnmatch_lines_random(
        [
            "*<b>it is broken</b>",
            "hint: write & hint it",
            "*a fault of its own*",
            "SKIPPED*no GPU*",
            "FAILED *proof.sif::proof/fails*",
        ]
    )


def test_own_tests_run_commands_in_the_image(pytester: pytest.Pytester, proof: Path) -> None:
    pytester.makepyfile(test_smoke=SMOKE)
    words = ("--lumi-image", proof, "-k", "pictures or test_a_command", "-v")
    done = pytester.runpytest_subprocess(*words)
    done.assert_outcomes(passed=2)


def test_an_image_beside_tests_is_collected_once(pytester: pytest.Pytester, proof: Path) -> None:
    (pytester.path / "proof.sif").symlink_to(proof)
    name = f"../{pytester.path.name}/proof.sif"
    done = pytester.runpytest_subprocess("--lumi-image", name, "--collect-only", "-q")
    assert [line for line in done.outlines if "::proof/" in line] == [
        f"proof.sif::proof/{name}" for name in ("environment", "gpu", "pictures")
    ]


def test_without_the_option_nothing_is_done(pytester: pytest.Pytester, proof: Path) -> None:
    (pytester.path / "proof.sif").symlink_to(proof)
    pytester.makepyfile(
        test_own="""
        import sys

        def test_quiet():
            ours = {name for name in sys.modules if name.startswith("lumicontainer")}
            assert ours == {"lumicontainer", "lumicontainer.pytest_plugin"}
            assert not {"jinja2", "yaml", "asyncio"} & set(sys.modules)
        """
    )
    done = pytester.runpytest_subprocess("-q")
    done.assert_outcomes(passed=1)
    assert "lumi" not in done.stdout.str()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--lumi-image", "nowhere.sif"), "file not found: nowhere.sif"),
        (("--lumi-image", "test_smoke.py"), "it has no SIF header"),
        ((), "no image: name it with pytest --lumi-image image.sif"),
    ],
)
def test_what_is_wrong_is_reported_in_a_line(
    pytester: pytest.Pytester, words: tuple[str, ...], message: str
) -> None:
    pytester.makepyfile(test_smoke=SMOKE)
    done = pytester.runpytest_subprocess(*words)
    assert done.ret != 0
    assert message in done.stdout.str() + done.stderr.str()
    assert "Traceback" not in done.stdout.str()
