"""A URL is refused if it would keep a secret, or if what it names could be changed on the way."""

import pytest

from lumicontainer.core.yaml.urls import find_url_fault, has_valid_host, without_secrets

PLAIN = "https://host.example/a/b-1.0.tar.gz"


@pytest.mark.parametrize(
    "url",
    [
        PLAIN,
        "https://[2001:db8::1]:8443/a",
        "https://host.example/a?version=1&monkey=2#sha256=00",
        "https://host.example/a?token",
    ],
)
def test_a_url_without_a_secret_is_accepted(url: str) -> None:
    assert find_url_fault(url) is None


@pytest.mark.parametrize(
    "url",
    [
        "https://user@host.example/a",
        "https://user:hidden@host.example/a",
        "https://host.example/a?token=hidden",
        "https://host.example/a?x=1;X-Amz-Signature=hidden",
        "https://host.example/a?api_key=hidden&y=2",
    ],
)
def test_a_url_with_a_secret_is_refused_without_showing_it(url: str) -> None:
    fault = find_url_fault(url)
    assert fault is not None
    assert "hidden" not in str(fault)
    assert "would be kept" in fault.why


@pytest.mark.parametrize(
    "url", ["https://host.example/a b", "https:///a", "ftp://host.example/a", "host.example/a", ""]
)
def test_text_that_names_no_place_is_refused(url: str) -> None:
    assert find_url_fault(url) is not None


def test_only_bytes_of_a_known_hash_come_by_plain_http() -> None:
    url = PLAIN.replace("https", "http")
    schemes = ("https", "http")
    assert find_url_fault(url, schemes=schemes, pinned=True) is None
    assert find_url_fault(url, schemes=schemes) is not None


@pytest.mark.parametrize("host", ["[::g]", "host:65536", "-host", "a b"])
def test_a_host_that_cannot_be_is_invalid(host: str) -> None:
    assert not has_valid_host(f"https://{host}/")


def test_the_public_part_of_a_broken_url_has_no_secret_either() -> None:
    assert without_secrets("https://user:hid@den@host/a?token=hidden#hidden") == "https://host/a"
    assert without_secrets("user:hidden@host") == "host"
