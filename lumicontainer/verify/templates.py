"""Fill the templates of what is more than a few lines: a batch script, a test class, a page."""

from __future__ import annotations

import pprint
import shlex
from functools import partial
from typing import Any


def filled(template: str, **values: Any) -> str:
    """Return the text that a template makes of values; where it is HTML, these are escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - 30 ms

    environment = Environment(
        loader=PackageLoader("lumicontainer"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=template.endswith(".html.j2"),
    )
    environment.filters["quote"] = shlex.quote
    environment.filters["words"] = shlex.join
    environment.filters["literal"] = partial(pprint.pformat, width=96, sort_dicts=False)
    return environment.get_template(template).render(**values)
