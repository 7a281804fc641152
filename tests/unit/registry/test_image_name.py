"""The names of images in registries, and the mistakes in them."""

import pytest

from lumicontainer.errors import InputError
from lumicontainer.registry.image_name import parse_image_name

DIGEST = f"sha256:{'a' * 64}"


@pytest.mark.parametrize(
    ("text", "parts"),
    {
        "oci://registry.example.org/a/b:1.0": ("registry.example.org", "a/b", "1.0"),
        "oci://localhost:5000/a": ("localhost:5000", "a", "latest"),
        f"oci://[::1]:5000/a@{DIGEST}": ("[::1]:5000", "a", DIGEST),
        f"oci://h.org/a:1@{DIGEST}": ("h.org", "a", DIGEST),
        "oci://docker.io/a:1": ("docker.io", "library/a", "1"),
    }.items(),
)
def test_a_name_has_a_host_a_path_and_a_tag(text: str, parts: tuple[str, ...]) -> None:
    name = parse_image_name(text)
    assert tuple(name) == parts
    assert parse_image_name(str(name)) == name


@pytest.mark.parametrize(
    ("text", "words"),
    {
        "oras://h.org/a:1": "write oci://h.org/a:1",
        "docker://h.org/a": "write oci://h.org/a",
        "image.sif": "does not begin with oci://",
        "oci://h.org/Team/Image:1": "write oci://h.org/team/image:1",
        "oci://h.org": "expected a name",
        "oci://h.org/a:": "write oci://HOST/NAME:TAG",
        "oci://h.org/../a": "expected a name",
        "oci://h.org/a:b:c": "invalid tag 'b:c'",
        "oci://h.org/a@sha256:12": "invalid digest",
        "oci://h.org/a?x=1": "expected a name",
        "oci:///a:1": "it has no valid host",
        "oci://h.org:99999/a": "it has no valid host",
        "oci://h.org/a b": "a character that no URL has",
    }.items(),
)
def test_a_name_in_another_form_is_refused_with_a_hint(text: str, words: str) -> None:
    with pytest.raises(InputError) as refusal:
        parse_image_name(text)
    assert words in str(refusal.value)


def test_a_password_in_a_name_is_neither_taken_nor_shown() -> None:
    with pytest.raises(InputError) as refusal:
        parse_image_name("oci://me:secret-word@h.org/a:1")
    assert "secret-word" not in str(refusal.value)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:5000", "[::1]:5000", "127.8.8.8"])
def test_a_registry_of_this_host_is_known_by_its_address(host: str) -> None:
    assert parse_image_name(f"oci://{host}/a").is_of_this_host


@pytest.mark.parametrize("host", ["10.0.0.1", "localhost.example.org", "128.0.0.1", "example.org"])
def test_any_other_registry_is_of_another_host(host: str) -> None:
    assert not parse_image_name(f"oci://{host}/a").is_of_this_host
