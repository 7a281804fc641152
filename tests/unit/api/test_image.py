"""An image says when its file was written."""

import json
import os
from pathlib import Path

import pytest

from lumicontainer import api

from ..verify.test_inspect import HELLO, made


@pytest.mark.slow
def test_the_data_of_an_image_are_its_record_and_facts_of_its_file(tmp_path: Path) -> None:
    path = made(tmp_path, json.dumps(HELLO))
    os.utime(path, (0, 90))
    file = {"key": "", "bytes": path.stat().st_size, "build_date": None}
    assert api.inspect(path).as_data() == {**HELLO, **file, "written": "1970-01-01T00:01Z"}
