"""A batch script says what it asks for, and every value reaches Slurm and the program as itself."""

import shlex

import pytest

from lumicontainer.core.catalog import open_catalog
from lumicontainer.errors import InputError
from lumicontainer.jobs.scripts.batch import (
    DEPENDENCY,
    Body,
    JobHeader,
    array_size,
    batch_options,
    batch_script,
)
from lumicontainer.jobs.scripts.layout import Demand, lay_out
from lumicontainer.jobs.scripts.times import minutes_of, sbatch_time, time_words

LUMI = open_catalog().platform("lumi-g")
NAMED = JobHeader("x")
BODY = Body("", ["singularity", "exec", "/x.sif"], ["lumi-entry", "a.py"])


def lines(demand: Demand, header: JobHeader = NAMED, body: Body = BODY) -> list[str]:
    layout = lay_out(LUMI, demand, [])
    return batch_script(LUMI.slurm, layout, batch_options(layout, header), body).splitlines()


def test_the_options_of_sbatch_come_before_every_command() -> None:
    text = lines(
        Demand(gpus=2), JobHeader("x", 90, account="p", array="0-3", dependency="singleton")
    )
    last = max(number for number, each in enumerate(text) if each.startswith("#SBATCH"))
    assert all(each.startswith("#") for each in text[:last])
    assert [each.partition("  #")[0] for each in text[1 : last + 1]] == [
        "#SBATCH --job-name=x",
        "#SBATCH --partition=small-g",
        "#SBATCH --account=p",
        "#SBATCH --time=01:30:00",
        "#SBATCH --array=0-3",
        "#SBATCH --dependency=singleton",
        "#SBATCH --nodes=1",
        "#SBATCH --ntasks-per-node=2",
        "#SBATCH --gpus-per-node=2",
        "#SBATCH --cpus-per-task=7",
        "#SBATCH --mem=120G",
    ]


def test_srun_gets_the_cores_that_it_does_not_inherit_and_mpi_if_the_image_has_it() -> None:
    part = lines(Demand(gpus=1), body=BODY._replace(has_mpi=True))
    assert "srun --kill-on-bad-exit=1 --mpi=pmi2 --cpus-per-task=7 \\" in part
    assert "srun --kill-on-bad-exit=1 \\" in lines(Demand())


def test_whole_nodes_of_a_shared_partition_are_exclusive() -> None:
    text = lines(Demand(partition="small-g"))
    assert "#SBATCH --exclusive  # whole nodes" in text
    assert not any("--exclusive" in each for each in lines(Demand(partition="standard-g")))


LONG = "0-9%" + "9" * 5000
HOSTILE = ("a b", 'a"b', "it's", "$HOME", "`x`", "$(x)", "a#b", " #x", "é", "a;b", "%j", "{{x}}")


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_values_stay_one_option_of_slurm(value: str) -> None:
    (line,) = (each for each in lines(Demand(), JobHeader("x", output=value)) if "--output" in each)
    # Slurm reads quotes as a shell does, but expands nothing.
    assert shlex.split(line.removeprefix("#SBATCH "), comments=True) == [f"--output={value}"]


@pytest.mark.parametrize("value", ["a\\b", "a\nb", "a\rb", "\x1b[0m", "\u2028"])
def test_what_slurm_cannot_read_is_refused(value: str) -> None:
    with pytest.raises(InputError):
        lines(Demand(), JobHeader("x", output=value))


@pytest.mark.parametrize("value", [*HOSTILE, "a\\b", "a\nb", "", "-x", "\\"])
def test_hostile_arguments_stay_one_word_of_the_shell(value: str) -> None:
    text = "\n".join(lines(Demand(), body=BODY._replace(command=["demo", value])))
    assert shlex.split(text.rpartition("srun")[2].replace("\\\n", " "))[-1] == value


@pytest.mark.parametrize(
    ("text", "size"),
    [
        *(("0-7", 8), ("3", 1), ("1,3,5", 3), ("0-9:3", 4), ("0-99%10", 100), ("0,4-5%2", 3)),
        *((text, None) for text in ("", "a", "7-0", "1-", "0-9:0", "0-9%0", "1;2", "0-9%x", LONG)),
    ],
)
def test_the_jobs_of_an_array_are_counted(text: str, size: int | None) -> None:
    assert array_size(text) == size


def test_a_dependency_names_jobs() -> None:
    for text in ("singleton", "afterok:1", "afterok:1:2_3,afterany:4", "after:1+5"):
        assert DEPENDENCY.fullmatch(text)
    for text in ("afterok", "afterok:x", "ok:1", "afterok:1 ", "singleton\n"):
        assert not DEPENDENCY.fullmatch(text)


def test_times_are_written_for_people_and_for_slurm() -> None:
    assert [minutes_of(text) for text in ("60", "1-12:00:00", "0:30:01")] == [60, 2160, 31]
    assert [time_words(each) for each in (45, 60, 90, 2160)] == ["45m", "1h", "1h30m", "1d12h"]
    assert [sbatch_time(each) for each in (45, 2160)] == ["00:45:00", "1-12:00:00"]
