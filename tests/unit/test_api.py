"""The interface in Python as a package."""

import sys

from ..programs import run


def test_importing_it_imports_no_package_that_few_calls_need() -> None:
    program = "import sys\nfrom lumicontainer import api\nprint(*sys.modules)"
    imported = {*run([sys.executable, "-c", program]).stdout.split()}
    assert "lumicontainer.api" in imported
    assert not {"spython", "docker", "rich", "jinja2", "uv"} & imported
