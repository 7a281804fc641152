"""The settings of pip on this host count as pip itself weighs them."""

from pathlib import Path

import pytest

from lumicontainer.host.site import pip_settings, read_site

pytestmark = pytest.mark.slow


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    file = tmp_path / "pip.conf"
    file.write_text(
        "[global]\nindex-url = https://global.example\ntimeout = 5\nretries = 1\n"
        "[install]\ntimeout = 7\nretries = 2\n"
    )
    for name in ("PIP_INDEX_URL", "PIP_DEFAULT_TIMEOUT", "PIP_TIMEOUT", "PIP_RETRIES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(file))
    return monkeypatch


def test_a_section_of_a_command_wins_over_the_global_one(configured: pytest.MonkeyPatch) -> None:
    del configured
    settings = pip_settings()
    assert settings["index-url"] == "https://global.example"
    assert (settings["timeout"], settings["retries"]) == ("7", "2")


def test_the_environment_wins_over_every_file(configured: pytest.MonkeyPatch) -> None:
    configured.setenv("PIP_INDEX_URL", "https://env.example")
    configured.setenv("PIP_TIMEOUT", "99")
    settings = pip_settings()
    assert settings["index-url"] == "https://env.example"
    assert (settings["timeout"], settings["retries"]) == ("99", "2")


def test_pip_tries_at_least_twice_because_it_names_servers_out_of_reach_only_then(
    configured: pytest.MonkeyPatch,
) -> None:
    assert read_site("").environment["PIP_RETRIES"] == "2"
    configured.setenv("PIP_RETRIES", "0")
    assert read_site("").environment["PIP_RETRIES"] == "1"
