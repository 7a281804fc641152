"""Launchers that users bring are named: horovodrun, a configuration of accelerate."""

import json
from pathlib import Path

import pytest

from lumicontainer.inside.rank.context import Options

from .. import seen
from ..conftest import lay_out, run
from ..deciding import decide

CONFIGURATION = "compute_environment: LOCAL_MACHINE\nmixed_precision: bf16\nnum_processes: 8\n"
ONE_A_NODE = {**seen.srun(0), **seen.step(0, "nid[005001-005002]", 2, "1(x2)", 2)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("--", "horovodrun", "-np", "4", "python", "train.py", "a b"), "train.py 'a b'"),
        (("/opt/venv/bin/horovodrun", "--num-proc=4", "python", "x.py"), "x.py"),
        (("-m", "horovod.runner", "-np", "4", "x.py"), "x.py"),
    ],
)
def test_horovodrun_is_refused_with_the_command_that_works(
    tmp_path: Path, words: tuple[str, ...], hint: str
) -> None:
    launcher = lay_out(tmp_path)
    record = {"layers": {"mpich": {}}}
    (tmp_path / "opt/lumicontainer/resolved.json").write_text(json.dumps(record))
    done = run(launcher, *words)
    assert done.returncode == 2
    assert "cannot start ranks here" in done.stderr
    assert f"hint: mpiexec -n 4 lumi-entry {hint}; in a job" in done.stderr


@pytest.mark.slow
def test_horovodrun_may_run_if_the_image_has_another_mpi(tmp_path: Path) -> None:
    done = run(lay_out(tmp_path), "--", "horovodrun")
    assert (done.returncode, "command not found" in done.stderr) == (127, True)


@pytest.mark.parametrize("name", ["HF_HOME", "XDG_CACHE_HOME", "HOME"])
def test_a_configuration_of_accelerate_that_is_overridden_is_named(
    tmp_path: Path, name: str
) -> None:
    below = {"HF_HOME": "", "XDG_CACHE_HOME": "huggingface", "HOME": ".cache/huggingface"}
    path = tmp_path / below[name] / "accelerate/default_config.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(CONFIGURATION)
    env = {**ONE_A_NODE, name: str(tmp_path)}
    (warned,) = decide(env, options=Options(launcher="accelerate", nproc=2)).warnings
    assert warned.startswith(
        f"lumi-entry decides these values of {path}: mixed_precision=bf16, num_processes=8; "
    )
    named = Options(launcher="accelerate", nproc=2, launcher_args=f"--config_file {path}")
    assert decide(env, options=named).warnings == []
    assert decide(env, options=Options(launcher="torchrun", nproc=2)).warnings == []
