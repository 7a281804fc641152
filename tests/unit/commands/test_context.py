"""Requests get the options of their names, and keep their defaults for the others."""

from argparse import Namespace
from pathlib import Path

from lumicontainer.api import JobRequest
from lumicontainer.commands.context import request_of


def test_an_option_that_was_left_out_leaves_the_default_of_its_field() -> None:
    arguments = Namespace(image=Path("x.sif"), partition=None, account="p1", verb="job")
    request = request_of(JobRequest, arguments)
    assert request == JobRequest(Path("x.sif"), account="p1")


def test_a_value_stands_before_the_option_of_its_name() -> None:
    arguments = Namespace(image=Path("x.sif"), command=["--", "true"])
    assert request_of(JobRequest, arguments, command=["true"]).command == ["true"]
