"""The files and the Python packages of this image, read once.

Checks that name this module in their ``imports`` are forked from a process that has read both.
"""

from .contents import contents
from .distributions import packages

IMAGE = contents()
PACKAGES = packages()
for _package in PACKAGES:
    _package.files  # noqa: B018 - read here, for all checks
