"""Run lumi-entry and lumi-verify one after the other, and report: ``measure.py HOME RESULTS``.

``run.sh`` calls it with the Python of a machine that has a GPU.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]
HERE = Path(__file__).resolve().parent
WORKLOADS = HERE.parent / "workloads"
LIMIT = 540
"""Seconds of all of it."""
PYTORCH = (
    *("pytorch/memory", "pytorch/gemm", "pytorch/denormals", "pytorch/compiled"),
    *("pytorch/triton_kernel", "pytorch/collectives", "pytorch/new_group", "pytorch/ddp"),
    *("pytorch/training", "pytorch/training_speed"),
)
DEEPSPEED = ("deepspeed/fused_ops", "deepspeed/zero", "deepspeed/training")
UNDER_TORCHRUN = ("pytorch/collectives", "pytorch/ddp")
OPS = "DeepSpeed ops"
ADDS = "import torch; a = torch.arange(1000, device='cuda'); assert a.sum().item() == 499500"
ONE_RANK = {
    **dict.fromkeys(("RANK", "LOCAL_RANK"), "0"),
    **dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), "1"),
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29511",
}
AGENT = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "1")


class Session:
    """Run programs within the time that all of them have, and keep a row of each."""

    def __init__(self, home: Path, results: Path) -> None:
        self.home, self.results = home, results
        self.end = time.monotonic() + LIMIT
        self.rows: list[Row] = []

    def run(self, name: str, words: Sequence[object], env: dict[str, str] | None = None) -> None:
        """Run a program, with its output in a file; it passes if it ends with 0."""
        begun = time.monotonic()
        self.note(self.row_of(name, self.start(name, words, env), begun))

    def start(
        self, name: str, words: Sequence[object], env: dict[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a program, with its output in a file."""
        with self.log(name).open("wb") as stream:
            return subprocess.Popen(
                [str(word) for word in words],
                env={**os.environ, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
            )

    def log(self, name: str) -> Path:
        """Return the file for the output of a program."""
        return self.results / f"{name.replace(' ', '-')}.log"

    def row_of(self, name: str, job: subprocess.Popen[bytes], begun: float) -> Row:
        """Wait for a program, and return its row."""
        try:
            code: object = job.wait(max(1.0, self.end - time.monotonic()))
        except subprocess.TimeoutExpired:
            job.kill()
            code = "the time is over"
        lines = self.log(name).read_text(errors="replace").strip().splitlines()
        return {
            "name": name,
            "state": "passed" if code == 0 else "failed",
            "seconds": time.monotonic() - begun,
            "reason": "" if code == 0 else "\n".join([f"exit code {code}", *lines[-12:]]),
            "said": lines[-1] if lines else "",
        }

    def verify(self, title: str, names: Iterable[str], *before: object) -> None:
        """Run checks by lumi-verify; each that does not pass is a failure, if skipped too."""
        chosen = [word for name in names for word in ("-k", name)]
        file, begun = self.results / f"{title}.json", time.monotonic()
        options = ["--require", "gpu,ranks", "--json", file, *chosen]
        words = [*before, self.home / "bin/lumi-verify", *options]
        row = self.row_of(title, self.start(title, words), begun)
        if not file.is_file():
            self.note(row)
            return
        for each in json.loads(file.read_text())["checks"]:
            values = [f"{one['name']} {one['value']:.5g}" for one in each.get("measured", ())]
            said = ", ".join([*values, str(each.get("facts", {}).get("ran_on", ""))])
            kept = {name: each[name] for name in ("state", "seconds", "reason")}
            self.note({"name": f"{title}: {each['name']}", "said": said, **kept})

    def note(self, row: Row) -> None:
        """Keep a row and print it, for who watches."""
        self.rows.append(row)
        print(f"{row['name']}: {row['state']} {row['reason']}", file=sys.stderr, flush=True)

    def conclude(self) -> int:
        """Write the results, print a table, and return the exit code."""
        (self.results / "results.json").write_text(json.dumps(self.rows, indent=2) + "\n")
        wide = max(len(row["name"]) for row in self.rows)
        for row in self.rows:
            print(f"{row['name']:{wide}}  {row['state']:7} {row['seconds']:6.1f} s  {row['said']}")
        bad = [row for row in self.rows if row["state"] != "passed"]
        for row in bad:
            print(f"\n{row['name']} {row['state']}:\n{row['reason']}")
        print(f"\n{len(self.rows) - len(bad)} of {len(self.rows)} passed")
        return bool(bad)


def main(home: Path, results: Path) -> int:
    """Run all; return the exit code."""
    session, entry = Session(home, results), home / "bin/lumi-entry"
    begun = time.monotonic()
    ops = session.start(OPS, [sys.executable, HERE / "compile_ops.py", home])
    ddp, fsdp = (WORKLOADS / f"train_{name}.py" for name in ("ddp", "fsdp"))
    torchrun = (entry, "--launcher", "torchrun", "--nproc", "1")
    session.run("lumi-entry direct", [entry, "--", "python3", "-c", ADDS])
    session.run("lumi-entry one rank", [entry, ddp], ONE_RANK)
    session.run("lumi-entry agent", [entry, *AGENT, ddp])
    session.run("lumi-entry torchrun DDP", [*torchrun, ddp])
    session.run("lumi-entry torchrun FSDP", [*torchrun, fsdp])
    session.verify("alone", PYTORCH)
    session.verify("torchrun", UNDER_TORCHRUN, entry, *AGENT, "--no-python")
    session.note(session.row_of(OPS, ops, begun))
    session.verify("deepspeed", DEEPSPEED)
    session.run("lumi-entry torchrun DeepSpeed", [*torchrun, WORKLOADS / "train_deepspeed.py"])
    return session.conclude()


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:3])))
