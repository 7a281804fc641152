"""The manual's table of the rules of ``lumicontainer lint``.

``python -m lumicontainer.jobs.lint.reference`` prints it. ``make schemas`` writes it to
``docs/lint-rules.md``.
"""

import re
import sys

from lumicontainer.jobs.lint.rules import LintRule, rules

_HEAD = """\
# Rules of lint

`make schemas` writes this page from `lumicontainer/jobs/lint/rules.yaml`.
[Jobs](jobs.md#lint-a-script) says how to use the rules. Words in capitals stand for values of the
script or of the platform. `--fix` makes the change in the last column.

| rule | level | finding | reason | fix |
|---|---|---|---|---|
"""


def page() -> str:
    """Return the page."""
    return _HEAD + "".join(map(_row, rules().values()))


def _row(rule: LintRule) -> str:
    reason = _shown(f"{rule.why} ({rule.source})")
    cells = (f"`{rule.id}`", rule.level, _shown(rule.what), reason, rule.fix)
    return f"| {' | '.join(cells)} |\n"


def _shown(text: str) -> str:
    text = re.sub(r"\{(\w+)\}", lambda match: match[1].upper(), text)
    return text.replace("|", "\\|").replace("<", "&lt;").replace("$", "&#36;")


if __name__ == "__main__":
    sys.stdout.write(page())
