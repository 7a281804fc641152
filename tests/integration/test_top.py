"""``lumicontainer top`` shows a running job of two nodes, and says why it cannot show others."""

import json
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import alone, lumicontainer, run
from .processes import SECONDS, Env, until, wait_for

RANK = r"""
printf 'started\n\033[2J\033]0;title\007loss\t0.5 of %s' "$SLURM_PROCID" >rank$SLURM_PROCID.out
exec >>rank$SLURM_PROCID.out
echo in the log >&2
sleep 600
"""
SCRIPT = f"""#!/bin/bash
#SBATCH --job-name=looked-at --nodes=2 --ntasks-per-node=2 --gpus-per-node=1 --time=10
exec 2>job.log
srun bash -c {RANK!r}
"""
NODES = ["nid005001", "nid005002"]


@pytest.fixture(scope="module")
def cluster(running_cluster: Env) -> Iterator[Env]:
    with alone():
        yield running_cluster


@pytest.fixture(scope="module")
def job(cluster: Env, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a job of two nodes; return its number when all ranks have written to their logs."""
    folder = tmp_path_factory.mktemp("job")
    (folder / "rank.sh").write_text(RANK)
    script = SCRIPT.replace(repr(RANK), '"$(<rank.sh)"')
    done = run(("sbatch", "--parsable"), cwd=folder, env=cluster, stdin=script)
    number = done.stdout.strip()
    try:
        logs = [folder / f"rank{rank}.out" for rank in range(4)]
        wait_for(lambda: all(log.exists() and "0.5 of" in log.read_text() for log in logs))
        yield number
    finally:
        run(("scancel", number), env=cluster)


def test_top_shows_the_ranks_the_memory_and_the_last_line_of_each_node(
    job: str, cluster: Env
) -> None:
    done = lumicontainer("top", job, "--once", env=cluster, code=0)
    assert re.match(rf"job {job} looked-at: \S+ of 00:10:00, 2 of 2 nodes answered\n", done.stdout)
    for node, ranks in zip(NODES, ("0-1", "2-3"), strict=True):
        assert f"{node}: ranks {ranks}: 2 waiting; memory " in done.stdout
    assert done.stdout.count("GPUs: the driver of AMD shows none") == 2
    assert len(re.findall(r"  rank[0-3]\.out: loss\\t0\.5 of [0-3]\n", done.stdout)) == 2
    assert "\x1b" not in done.stdout


def test_programs_read_the_same_as_json(job: str, cluster: Env) -> None:
    seen = json.loads(lumicontainer("top", job, "--json", env=cluster, code=0).stdout)
    assert [node["name"] for node in seen["nodes"]] == NODES
    assert [[rank["rank"] for rank in node["ranks"]] for node in seen["nodes"]] == [[0, 1], [2, 3]]


def test_a_terminal_is_drawn_again_until_ctrl_c(job: str, cluster: Env) -> None:
    screen, terminal = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "lumicontainer", "top", job],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={**os.environ, **cluster, "COLUMNS": "72", "LINES": "24"},
    ) as watching:
        printed = bytearray()

        def read() -> bool:
            if select.select([screen], [], [], 0.1)[0]:
                printed.extend(os.read(screen, 1 << 16))
            return printed.count(b"2 of 2") >= 2

        assert until(read, SECONDS)
        watching.send_signal(signal.SIGINT)
        assert watching.wait(SECONDS) == 130
    os.close(screen)
    os.close(terminal)
    rows = re.sub(rb"\x1b\[[HKJ]", b"", bytes(printed)).decode().splitlines()
    assert max(map(len, rows[:8])) <= 72
    assert "\x1b" not in "".join(rows)
    wait_for(lambda: steps_of(job, cluster) == 1)


def steps_of(job: str, cluster: Env) -> int:
    listed = run(("squeue", "--steps", "--noheader", "--format=%i"), env=cluster).stdout
    return len(re.findall(rf"(?m)^ *{job}\.\d+", listed))


def test_a_job_that_ends_ends_it(cluster: Env, tmp_path: Path) -> None:
    script = "#!/bin/bash\nuntil [[ -e end ]]; do sleep 0.1; done\n"
    done = run(("sbatch", "--parsable"), cwd=tmp_path, env=cluster, stdin=script)
    number = done.stdout.strip()
    with subprocess.Popen(
        [sys.executable, "-m", "lumicontainer", "top", number],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **cluster},
    ) as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline().startswith(f"job {number} ")
        (tmp_path / "end").touch()
        _, errors = watching.communicate(timeout=SECONDS)
    assert watching.returncode == 0, errors
    assert f"job {number} is over" in errors
    done = lumicontainer("top", number, "--once", env=cluster, code=2)
    # Slurm may still tidy the nodes up.
    assert f"error: job {number} does not run: COMPLET" in done.stderr


def test_a_job_in_the_queue_is_shown_with_its_reason(cluster: Env, tmp_path: Path) -> None:
    words = ("sbatch", "--parsable", "--hold", "--wrap=true")
    number = run(words, cwd=tmp_path, env=cluster).stdout.strip()
    try:
        done = lumicontainer("top", number, "--once", env=cluster, code=2)
    finally:
        run(("scancel", number), env=cluster)
    assert f"error: job {number} waits in the queue" in done.stderr
    assert "why: JobHeldUser" in done.stderr
    assert f"hint: squeue --start --jobs={number}" in done.stderr


@pytest.mark.parametrize("word", ["99999999", "x", "1;id", "-1", "1_x", "$(id)"])
def test_what_is_no_job_is_refused(cluster: Env, word: str) -> None:
    done = lumicontainer("top", "--once", "--", word, env=cluster, code=2)
    assert re.match(r"error: (job not found|invalid job) '", done.stderr), done.stderr
