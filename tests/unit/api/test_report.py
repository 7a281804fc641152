"""A report is written for other programs, and says which image it is about."""

import hashlib
from pathlib import Path

import pytest
from junitparser import JUnitXml

from lumicontainer.api import Report
from lumicontainer.errors import InputError
from lumicontainer.inside.verify.outcome import FAILED

from ..verify.test_results import came, joined

pytestmark = pytest.mark.slow


@pytest.fixture
def report(tmp_path: Path) -> Report:
    return Report(joined(tmp_path, rows=(came("a/b"), came("a/c", FAILED))))


def test_a_page_names_the_image_as_the_data_do(report: Report, tmp_path: Path) -> None:
    report.write_html(str(tmp_path / "report.html"))
    image = report.as_data()["image"]
    assert image["sha256"] == hashlib.sha256(Path(image["file"]).read_bytes()).hexdigest()
    assert image["sha256"] in (tmp_path / "report.html").read_text()


def test_junit_has_a_case_for_each_check(report: Report, tmp_path: Path) -> None:
    report.write_junit(str(tmp_path / "junit.xml"))
    (suite,) = JUnitXml.fromfile(str(tmp_path / "junit.xml"))
    assert [(case.name, len(case.result)) for case in suite] == [("b", 0), ("c", 1)]


def test_a_file_that_cannot_be_written_is_refused(report: Report, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="choose a file in an existing and writable folder"):
        report.write_junit(str(tmp_path / "missing/junit.xml"))
