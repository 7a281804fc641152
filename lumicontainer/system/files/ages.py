"""Tell how old files are, whatever clock they got their times from."""

import math
import time

_SKEW = 86_400
"""Seconds by which the clocks of nodes and file servers may differ."""


def seconds_since(moment: float) -> float:
    """Return the seconds since the time of a file; infinity if that is still to come.

    A wrong clock set such a time, and it would else seem new for years.
    """
    seconds = time.time() - moment
    return seconds if seconds > -_SKEW else math.inf
