"""Start python plainly and by lumi-entry: alone, or as the ranks of one node, in turn or at once.

Runs in the image. Usage: python3 ranks.py alone, or turn|once SCRIPT LOGS TASKS OPTION...
TASKS is a JSON list of each rank's variables. Prints the times as JSON, in milliseconds: alone and
in turn the CPU time (user and system) of each process, at once the wall time of all.
"""

import json
import os
import resource
import subprocess
import sys
import time

RUNS = 11
WAITING = ["lumi-entry", "--remove-caches", "--", "sh", "-c", "echo here >&2; read -r _"]


def start(command, env):
    """Return a process with pipes for its stdin and its stderr."""
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=env, text=True, **pipes)


def used():
    """Return the CPU milliseconds of all processes that have ended: user and system."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (usage.ru_utime + usage.ru_stime) * 1000


def milliseconds(command, env):
    """Return the CPU time of one whole process; it must exit with 0."""
    before = used()
    process = start(command, env)
    _, words = process.communicate()
    if process.returncode:
        sys.exit(words)
    return used() - before


def alone():
    """Start python plainly and by lumi-entry, in turn; return the least time of each.

    A machine that changes its speed changes it for both.
    """
    plain = ["python3", "-c", "pass"]
    commands = (plain, ["lumi-entry", "--", *plain])
    times = [[milliseconds(each, os.environ) for each in commands] for _ in range(RUNS)]
    return list(map(min, zip(*times[1:])))


def turn(plain, entered, tasks):
    """Start the ranks one after the other, each plainly too; return the times, rank by rank.

    Each round is a separate job. Its first rank is alone; beside the others the last one runs on,
    so that the caches stay, as they do while a node's ranks start. It is not measured.
    """
    seen = [{"plain": [], "entered": []} for _ in tasks[:-1]]
    for run in range(RUNS):
        job = {"SLURM_JOB_ID": str(run + 1)}
        last = None
        for times, task in zip(seen, tasks):
            env = {**os.environ, **task, **job}
            times["plain"].append(milliseconds(plain, env))
            times["entered"].append(milliseconds(entered, env))
            if last is None:
                last = start(WAITING, {**os.environ, **tasks[-1], **job})
                last.stderr.readline()
        last.communicate("\n")
    return seen


def once(plain, entered, tasks):
    """Start all ranks at once, plainly and then by lumi-entry; return both times and all errors."""
    seen = {}
    for name, command in (("plain", plain), ("entered", entered)):
        begun = time.perf_counter()
        ranks = [start(command, {**os.environ, **task}) for task in tasks]
        words = [rank.communicate()[1] for rank in ranks]
        seen[name] = (time.perf_counter() - begun) * 1000
        seen["errors"] = [text for rank, text in zip(ranks, words) if rank.returncode]
    return seen


if sys.argv[1:] == ["alone"]:
    seen = alone()
else:
    how, script, logs, variables, *options = sys.argv[1:]
    by_entry = ["lumi-entry", *options, "--log-dir", logs, script]
    way = {"turn": turn, "once": once}[how]
    seen = way(["python3", script], by_entry, json.loads(variables))
json.dump(seen, sys.stdout)
