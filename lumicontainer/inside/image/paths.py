"""The paths of this image, walked once.

Checks that name this module in their ``imports`` are forked from a process that has walked them.
"""

from .installed import MOUNTED
from .walk import walk

PATHS = tuple(walk("/", MOUNTED))
