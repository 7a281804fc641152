"""Write times of jobs: for people, and for sbatch."""

import re

_LONG = re.compile(r"(?a)(?:(\d+)-)?(\d+):(\d+):(\d+)")


def minutes_of(text: str) -> int:
    """Return the minutes of a time as ``jobs.slurm.time_limit`` returns it, rounded up."""
    if not (long := _LONG.fullmatch(text)):
        return int(text)
    days, hours, minutes, seconds = (int(part or 0) for part in long.groups())
    return days * 1440 + hours * 60 + minutes + bool(seconds)


def time_words(minutes: int) -> str:
    """Return a time as users write it: ``2d``, ``1d12h``, ``90m``."""
    days, rest = divmod(minutes, 1440)
    hours, rest = divmod(rest, 60)
    parts = ((days, "d"), (hours, "h"), (rest, "m"))
    return "".join(f"{number}{unit}" for number, unit in parts if number)


def sbatch_time(minutes: int) -> str:
    """Return a time as sbatch writes it: ``1-12:00:00``."""
    days, rest = divmod(minutes, 1440)
    clock = f"{rest // 60:02}:{rest % 60:02}:00"
    return f"{days}-{clock}" if days else clock
