"""apt's sources of a Debian host name the mirror of Debian."""

from pathlib import Path

import pytest

from lumicontainer.host.site import debian_mirror

pytestmark = pytest.mark.slow

DEB822 = """\
Types: deb
URIs: http://mirror.site/debian/
Suites: bookworm bookworm-updates
Components: main contrib
"""
ONE_LINE = "deb [arch=amd64] http://mirror.site/debian bookworm main\n"


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.sources", DEB822, True),
        ("a.list", ONE_LINE, True),
        ("a.list", f"deb http://docker.site/ bookworm stable\n{ONE_LINE}", True),
        ("a.list", "deb http://s.site/debian-security bookworm-security main\n", False),
        ("a.list", "deb-src http://mirror.site/debian bookworm main\n", False),
        ("a.sources", f"{DEB822}Enabled: no\n", False),
        ("a.sources", DEB822.replace("http://mirror.site/debian/", "mirror+file:///x"), False),
    ],
)
def test_the_mirror_of_the_component_main_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, expected: bool
) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / name).write_text(text)
    parts = f'Dir::Etc::SourceParts "{tmp_path}/parts";\n'
    (tmp_path / "apt.conf").write_text(f'Dir::Etc::SourceList "/dev/null";\n{parts}')
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
    monkeypatch.delenv("LUMICONTAINER_MIRROR", raising=False)
    assert (debian_mirror("bookworm") == "http://mirror.site/debian") == expected
