"""A real browser lays the report out: nothing is wider than the screen.

Debian has a browser that starts without a desktop, which tests/tools.sh installs; Ubuntu has none.
There tests/unit/verify/test_html.py tests the rules of the page's parts, and nothing is measured.
"""

import html
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from lumicontainer.verify.html import page

from ..reports import RESULTS
from .conftest import run

WIDTHS = (320, 420, 1200)
BROWSER = shutil.which("chromium")
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--dump-dom"),
)
MEASURE = """<script>addEventListener("load", () => {
for (const each of document.querySelectorAll("iframe"))
    for (const part of each.contentDocument.querySelectorAll("details")) part.open = true;
document.body.textContent = [...document.querySelectorAll("iframe")].map(
    each => each.contentDocument.documentElement).map(
    each => each.scrollWidth - each.clientWidth).join(" ");
});</script>"""


def beyond(texts: Iterable[str], folder: Path) -> list[int]:
    """Return how many pixels pages, all unfolded, are wider than screens of ``WIDTHS``."""
    frame = '<iframe width="{}" height="900" style="border: 0" srcdoc="{}"></iframe>'
    frames = "".join(frame.format(width, html.escape(text)) for text in texts for width in WIDTHS)
    outer = folder / "outer.html"
    outer.write_text(f"<!DOCTYPE html><html><body>{frames}{MEASURE}</body></html>")
    command = [BROWSER, *OPTIONS, f"--user-data-dir={folder / 'profile'}", outer.as_uri()]
    done = run(command, env={"HOME": str(folder)})
    measured = re.search(r"<body>([\d ]+)</body>", done.stdout)
    assert measured, done.stderr
    return [int(word) for word in measured[1].split()]


if BROWSER:

    def test_no_report_scrolls_sideways(tmp_path: Path) -> None:
        pages = [page(result).decode() for result in RESULTS.values()]
        assert beyond(pages, tmp_path) == [0] * len(pages) * len(WIDTHS)

    def test_a_page_that_is_too_wide_is_found(tmp_path: Path) -> None:
        text = page(RESULTS["all passed"]).decode()
        wide = text.replace("<main>", '<main><div style="width: 900px">x</div>')
        assert beyond([wide], tmp_path)[0] > 500
