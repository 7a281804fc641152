"""The site's mirror is found in either form of apt's sources."""

import pytest

from lumicontainer.host.apt_sources import main_archive

DEB822 = """\
Types: deb
# Suites: comment
URIs: http://mirror.site/debian/
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""
ONE_LINE = """\
# deb http://old.site/debian bookworm main
deb [arch=amd64] http://mirror.site/debian bookworm main
"""


@pytest.mark.parametrize(
    "text",
    [
        DEB822,
        ONE_LINE,
        DEB822.replace("URIs: ", "URIs:\n "),
        f" {ONE_LINE}",
        f"{DEB822}Enabled: yes\n",
    ],
)
def test_the_main_archive_of_a_release_is_found(text: str) -> None:
    assert main_archive([text], ["bookworm"]) == "http://mirror.site/debian"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "deb http://x.site/apt cloud-bookworm main",
        "deb-src http://mirror.site/debian bookworm main",
        "deb http://x.site/docker bookworm stable",
        "deb http://s.site/debian-security bookworm-security main",
        DEB822.replace("Types: deb", "Types: deb-src"),
        *(f"{DEB822}Enabled: {word}\n" for word in ("no", "False", "off", "0")),
        DEB822.replace("http://mirror.site/debian/", "mirror+file:///etc/apt/mirrors/debian.list"),
    ],
)
def test_what_is_not_the_main_archive_is_passed_over(text: str) -> None:
    assert main_archive([text], ["bookworm"]) == ""


def test_the_first_of_several_wins() -> None:
    other = ONE_LINE.replace("mirror.site", "second.site")
    assert main_archive([DEB822, other], ["bookworm"]) == "http://mirror.site/debian"
