"""The values that go into the functions of the interface, and come out of them."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from lumicontainer.system.terminal import masking
from lumicontainer.system.terminal.forms import Callback, Event
from lumicontainer.system.terminal.progress import Progress
from lumicontainer.verify.subject import Row

Check: TypeAlias = Row
"""A check: its name, summary, level and so on; in a report also its state and its reason."""
OnProgress: TypeAlias = Callable[[Event], None] | Progress
"""Receives each event, from any thread; what it raises ends the call."""


def progress_of(receiver: OnProgress | None) -> Progress:
    """Return what reports to a function, to nobody, or as the command line does."""
    masking.hide_urls(os.environ.values())
    if isinstance(receiver, Progress):
        return receiver
    return Progress(Callback(receiver or (lambda _: None)))


@dataclass(frozen=True)
class BuildOptions:
    """Say how an image is built; the options of ``lumicontainer build`` have the same names."""

    jobs: int | None = None
    """The compile jobs of a step; by default what cores and memory allow."""
    runtime: str | None = None
    """The program that runs the steps; by default the first that this host can use."""
    secrets: Sequence[str] = ()
    """Files that scripts can read: texts ``id=ID,src=FILE``."""
    mirrors: Sequence[str] = ()
    """Texts ``FROM=TO``: URLs, and what is read in their place."""
    cache_from: Sequence[str] = ()
    """Caches in registries of which layers are taken, such as ``oci://HOST/NAME``."""
    cache_to: str = ""
    """The cache in a registry to which the layers are sent at the end."""
    cache_sign: str = ""
    """An SSH key that signs the layers which are sent."""
    build_date: str = ""
    """The date that the labels of the image name, as ``read_build_date`` returns it; not if empty.

    Only the command line reads SOURCE_DATE_EPOCH.
    """
    rebuild: bool = False
    verify: bool = True


class SlurmJob(NamedTuple):
    """Say which nodes a job asks for; empty texts leave it to Slurm."""

    nodes: int = 1
    partition: str = ""
    account: str = ""
