"""Readers of the words that documents share: names, paths, addresses, digests."""

import re
from functools import partial
from typing import Annotated, TypeAlias

from lumicontainer.constants import FORMAT, OPEN_PATH, STEM
from lumicontainer.core import habits
from lumicontainer.core.apptainer_syntax import hazard
from lumicontainer.core.yaml import readers
from lumicontainer.core.yaml.nodes import Node
from lumicontainer.core.yaml.urls import HTTP, HTTPS, find_url_fault, without_secrets
from lumicontainer.errors import Fault, Problems

ACCELERATORS = ("cpu", "rocm")
SCRIPT, COMPILE, FINISH = "install.sh", "compile.sh", "finish.sh"
# Names that would change how the shell itself works, or that the build sets.
RESERVED = {
    *("PATH", "HOME", "TMPDIR", "PWD", "IFS", "CDPATH", "ENV", "BASH_ENV", "SHELLOPTS"),
    *("BASHOPTS", "PS4", "UID", "EUID", "PPID", "jobs", "wheels", "secrets", "sources"),
}
NAME = r"[a-z0-9][a-z0-9.+-]*"
WHOLE_COMMIT = 40
"""Digits of a commit's hash; fewer name one commit today and may name two tomorrow."""

name = readers.matching(NAME, "a name of small letters, digits, '-', '.', '+'", habits.NAME)
stem = readers.matching(STEM, "a name of letters, digits, '_', '-', '.', '+'")
variable = readers.matching(r"[A-Za-z_][A-Za-z0-9_]*", "the name of a shell variable")
version = readers.matching(r"[A-Za-z0-9][A-Za-z0-9.+_-]*", 'a version such as "2.1.0"')
accelerator = readers.choice(ACCELERATORS, "accelerator")
format_number = readers.exact_integer(FORMAT)

absolute = readers.matching(r"/[A-Za-z0-9._/+-]*", "an absolute path of plain characters")
host_library = readers.matching(
    rf"/[A-Za-z0-9._/+-]*|{OPEN_PATH}",
    "an absolute path, or ${VARIABLE:-/folder/*}/path for a folder that is found on the host",
)
IMAGE_FILE = r"/([A-Za-z0-9._+-]+/)*[A-Za-z0-9][A-Za-z0-9._-]*"
image_file = readers.matching(IMAGE_FILE, "the absolute path of an image file in plain characters")
pattern = readers.matching(r"/[A-Za-z0-9._/+*?-]*", "an absolute path, in which * and ? may stand")
folder = readers.matching(r"[a-z0-9][a-z0-9_-]*(/[a-z0-9][a-z0-9_-]*)*", "a folder such as a/b")
file = readers.matching(r"[A-Za-z0-9][A-Za-z0-9._+-]*", "a plain name, without a folder before it")
inner_path = readers.matching(
    r"[A-Za-z0-9][A-Za-z0-9._+-]*(/[A-Za-z0-9][A-Za-z0-9._+-]*)*",
    "a relative path such as lib/inner",
)
script = readers.matching(
    r"([A-Za-z0-9][A-Za-z0-9._-]*/)*[A-Za-z0-9][A-Za-z0-9._-]*\.sh",
    "a file of the layer's folder such as install-rocm.sh",
)

_PLAIN = "[A-Za-z0-9._~/%+,=&?@:-]"
https_url = readers.checked(
    readers.matching(
        rf"https://[A-Za-z0-9]{_PLAIN}*",
        "a URL of plain characters by https",
        shown=without_secrets,
    ),
    find_url_fault,
)
http_url = readers.checked(
    readers.matching(
        rf"https?://[A-Za-z0-9]{_PLAIN}*",
        "a URL of plain characters by https",
        shown=without_secrets,
    ),
    partial(find_url_fault, schemes=(HTTPS, HTTP), pinned=True),
)
sha256 = readers.matching(r"[0-9a-f]{64}", "64 hexadecimal digits")
commit = readers.matching(
    rf"[0-9a-f]{{7,{WHOLE_COMMIT}}}", f"a commit of 7 to {WHOLE_COMMIT} hexadecimal digits"
)
DOCKER_IMAGE = r"[A-Za-z0-9][A-Za-z0-9._/:-]*(@sha256:[0-9a-f]{64})?"


def _without_login(image: str) -> str:
    name, at, digest = image.partition("@sha256:")
    return f"{without_secrets(name)}{at}{digest}"


docker_image = readers.matching(
    DOCKER_IMAGE,
    "an image such as debian:bookworm, with or without @sha256: and 64 hexadecimal digits",
    shown=_without_login,
)
_APT_NAME = r"[a-z0-9][a-z0-9+.-]*[a-z0-9+.](?::[a-z0-9-]*[a-z0-9])?"
_APT_VERSION = r"(?:[0-9]+:)?[0-9](?:[A-Za-z0-9.+~-]*[A-Za-z0-9.+~])?"
"""As Debian's policy has them (5.6.1, 5.6.12), but for a last '-', by which apt removes."""
APT_PIN = f"{_APT_NAME}={_APT_VERSION}"
apt_name = readers.matching(_APT_NAME, "the name of a Debian package, such as libfabric-dev")
apt_package = readers.matching(
    f"{_APT_NAME}(?:={_APT_VERSION})?", "the name of a Debian package, such as make or make=4.3-4.1"
)

pci = readers.matching(
    r"[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]", "a PCI address such as 0000:c1:00.0"
)
interface_prefix = readers.matching(
    r"[a-z][a-z0-9_-]*[a-z]|[a-z]", "the beginning of names such as hsn0"
)
driver = readers.matching(r"[0-9]+(\.[0-9]+)*", "a version of the driver such as 6.3")
network_word = readers.matching(r"[a-z0-9_=.-]+", "one word of --network")


def _reserved(value: str) -> Fault | None:
    if value not in RESERVED:
        return None
    hint = "use 'path:' for folders" if value == "PATH" else "leave it out"
    why = "it belongs to the shell or to the user who enters the image"
    return Fault(f"the environment cannot hold '{value}'", why, hint)


def _hazardous(value: str) -> Fault | None:
    why = hazard(value)
    return Fault("this text cannot stand in a definition", why) if why else None


SUBSTITUTION = re.compile(r"\$\([^()]*\)|`[^`]+`")
"""A command whose output a shell would put in its place."""
EXPANSION = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)[^}]*\})")
"""The name of a variable in a value; nothing replaces it in an image."""
constant = readers.checked(variable, _reserved, **{"not": {"enum": sorted(RESERVED)}})
"""The name of a variable that an image may set."""
summary = readers.checked(readers.line, _hazardous)
"""A line of text that a definition can hold."""


@readers.with_schema({"type": ["string", "integer", "boolean"]})
def raw(node: Node, problems: Problems) -> Node:
    """Return a node as it is: its type is known later."""
    del problems
    return node


@readers.with_schema(
    lambda: {"type": ["string", "integer", "boolean", "array"], "items": readers.schema_of(name)}
)
def any_value(node: Node, problems: Problems) -> Node:
    """Return the value of a parameter as it is; of all types, one is a list of layers."""
    del problems
    return node


values = readers.mapping(any_value, key=variable)
"""Values for the parameters of a layer, which say later what each must be."""

Line: TypeAlias = Annotated[str, readers.line]
Name: TypeAlias = Annotated[str, name]
Names: TypeAlias = tuple[Annotated[readers.Text, name], ...]
Script: TypeAlias = Annotated[str, script]
Summary: TypeAlias = Annotated[str, summary]
Accelerator: TypeAlias = Annotated[str, accelerator]
Format: TypeAlias = Annotated[int, format_number]
