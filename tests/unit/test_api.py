"""The interface in Python as a package."""

import subprocess
import sys


def test_importing_it_imports_no_package_that_few_calls_need() -> None:
    program = "import sys\nfrom lumicontainer import api\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert not {"spython", "docker", "rich", "jinja2", "uv"} & {*done.stdout.split()}
