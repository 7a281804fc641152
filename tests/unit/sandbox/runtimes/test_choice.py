"""A build says first by which runtime it builds, and which limit of its steps that one lacks."""

import pytest

from lumicontainer.errors import Problem
from lumicontainer.sandbox.runtimes import Choice
from lumicontainer.sandbox.runtimes.docker import Docker
from lumicontainer.sandbox.runtimes.namespaces import Namespaces
from lumicontainer.sandbox.runtimes.proot import PRoot
from lumicontainer.sandbox.runtimes.runtime import Runtime


def test_docker_limits_no_bytes_and_a_build_by_it_says_so() -> None:
    lines = Choice(Docker(), {"namespaces": Problem("no user namespaces")}).describe().splitlines()
    assert lines == [
        "runtime: docker (namespaces: no user namespaces)",
        "not limited: the bytes that a step writes (LUMICONTAINER_STEP_GIB has no effect)",
    ]


@pytest.mark.parametrize("runtime", [Namespaces(), PRoot()], ids=lambda each: each.name)
def test_other_runtimes_have_every_limit(runtime: Runtime) -> None:
    assert Choice(runtime, {}).describe() == f"runtime: {runtime.name}"
