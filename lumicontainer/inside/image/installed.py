"""The mount points and the Python packages of this image, read once.

Checks that name this module in their ``imports`` are forked from a process that has read both.
"""

from .distributions import packages
from .walk import mounts

MOUNTED = mounts()
PACKAGES = packages()
for _package in PACKAGES:
    _package.files  # noqa: B018 - read here, for all checks
