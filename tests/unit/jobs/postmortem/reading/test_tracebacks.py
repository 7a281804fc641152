"""The line of the user's code is found, also if PyTorch raises an error again."""

from lumicontainer.jobs.postmortem.reading.tracebacks import tracebacks

LIBRARY = (
    '  File "/opt/venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py", line 9, in f'
)
HEAD = "Traceback (most recent call last):"


def frame(line: int) -> str:
    return f'  File "/users/me/train.py", line {line}, in main'


def test_the_error_of_a_worker_is_where_the_worker_raised_it() -> None:
    again = ["KeyError: Caught KeyError in DataLoader worker process 0.", f"Original {HEAD}"]
    lines = [HEAD, frame(7), LIBRARY, *again, LIBRARY, frame(21), "KeyError: 'image'", ""]
    (seen,) = tracebacks(lines)
    assert (seen.error, seen.place) == ("KeyError: 'image'", "/users/me/train.py:21")
    assert seen.first == 1


def test_a_cause_that_is_in_libraries_alone_is_where_the_program_called_them() -> None:
    also = ["The above exception was the direct cause of the following exception:", ""]
    lines = [HEAD, LIBRARY, "RuntimeError: killed", "", *also, HEAD, frame(7), LIBRARY]
    (seen,) = tracebacks([*lines, "RuntimeError: exited", ""])
    assert (seen.error, seen.place) == ("RuntimeError: exited", "/users/me/train.py:7")
