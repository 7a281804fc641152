"""Files are as old as their times say, unless a wrong clock set these."""

import math
import time

from lumicontainer.system.files.ages import seconds_since

DAY = 86_400


def test_a_file_from_before_has_its_age() -> None:
    assert DAY <= seconds_since(time.time() - DAY) < math.inf


def test_clocks_may_differ_by_hours() -> None:
    assert -DAY < seconds_since(time.time() + DAY / 2) < 0


def test_a_time_that_is_still_to_come_is_as_old_as_can_be() -> None:
    assert seconds_since(time.time() + 2 * DAY) == math.inf
