"""Readers of the words that documents share: names, paths, addresses, digests."""

from __future__ import annotations

from lumicontainer.core.apptainer_syntax import hazards
from lumicontainer.core.yaml.nodes import Node
from lumicontainer.core.yaml.readers import (
    Fault,
    checked,
    choice,
    described,
    line,
    mapping,
    matching,
)
from lumicontainer.errors import Problems

ACCELERATORS = ("cpu", "rocm")
SCRIPT, COMPILE, FINISH = "install.sh", "compile.sh", "finish.sh"
# Names that would change how the shell itself works, or that the build sets.
RESERVED = {
    *("PATH", "HOME", "TMPDIR", "PWD", "IFS", "CDPATH", "ENV", "BASH_ENV", "SHELLOPTS"),
    *("BASHOPTS", "PS4", "UID", "EUID", "PPID", "jobs", "wheels", "secrets", "sources"),
}
NAME = r"[a-z0-9][a-z0-9.+-]*"
STEM = r"\w[\w.+-]*"
"""What recipes, profiles and platforms may be called, which is what their files are called: the
name stands in comments of documents, in paths and in lines for the shell."""
WHOLE_COMMIT = 40
"""Digits of a commit's hash; fewer name one commit today and may name two tomorrow."""

name = matching(NAME, "a name of small letters, digits, '-', '.', '+'")
stem = matching(STEM, "a name of letters, digits, '_', '-', '.', '+'")
variable = matching(r"[A-Za-z_][A-Za-z0-9_]*", "the name of a shell variable")
version = matching(r"[A-Za-z0-9][A-Za-z0-9.+_-]*", 'a version such as "2.1.0"')
accelerator = choice(ACCELERATORS)

absolute = matching(r"/[A-Za-z0-9._/+-]*", "an absolute path of plain characters")
pattern = matching(r"/[A-Za-z0-9._/+*?-]*", "an absolute path, in which * and ? may stand")
folder = matching(r"[a-z0-9][a-z0-9_-]*(/[a-z0-9][a-z0-9_-]*)*", "a folder such as a/b")
file = matching(r"[A-Za-z0-9][A-Za-z0-9._+-]*", "a plain name, without a folder before it")
script = matching(
    r"([A-Za-z0-9][A-Za-z0-9._-]*/)*[A-Za-z0-9][A-Za-z0-9._-]*\.sh",
    "a file of the layer's folder such as install-rocm.sh",
)

_PLAIN = "[A-Za-z0-9._~/%+,=&?@:-]"
https_url = matching(rf"https://[A-Za-z0-9]{_PLAIN}*", "a URL of plain characters by https")
http_url = matching(rf"https?://[A-Za-z0-9]{_PLAIN}*", "a URL of plain characters by https")
sha256 = matching(r"[0-9a-f]{64}", "64 hexadecimal digits")
commit = matching(
    rf"[0-9a-f]{{7,{WHOLE_COMMIT}}}", f"a commit of 7 to {WHOLE_COMMIT} hexadecimal digits"
)
docker_image = matching(
    r"[A-Za-z0-9][A-Za-z0-9._/:-]*(@sha256:[0-9a-f]{64})?",
    "an image such as debian:bookworm, with or without @sha256: and 64 hexadecimal digits",
)
_APT_NAME = r"[a-z0-9][a-z0-9+.-]*[a-z0-9+.](?::[a-z0-9-]*[a-z0-9])?"
_APT_VERSION = r"(?:[0-9]+:)?[0-9](?:[A-Za-z0-9.+~-]*[A-Za-z0-9.+~])?"
"""As Debian's policy has them (5.6.1, 5.6.12), but for a last '-', by which apt removes."""
APT_PIN = f"{_APT_NAME}={_APT_VERSION}"
apt_name = matching(_APT_NAME, "the name of a Debian package, such as libfabric-dev")
apt_package = matching(
    f"{_APT_NAME}(?:={_APT_VERSION})?",
    "the name of a Debian package, such as make or make=4.3-4.1",
)

pci = matching(r"[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]", "a PCI address such as 0000:c1:00.0")
interface_prefix = matching(r"[a-z][a-z0-9_-]*[a-z]|[a-z]", "what names such as hsn0 begin with")
driver = matching(r"[0-9]+(\.[0-9]+)*", "a version of the driver such as 6.3")
network_word = matching(r"[a-z0-9_=.-]+", "one word of --network")


def _reserved(value: str) -> Fault | None:
    if value not in RESERVED:
        return None
    hint = "use 'path:' for folders" if value == "PATH" else "leave it out"
    why = "it belongs to the shell or to the user who enters the image"
    return Fault(f"the environment cannot hold '{value}'", why, hint)


def _hazardous(value: str) -> Fault | None:
    for _, reason in hazards(value):
        return Fault("this text cannot stand in a definition", reason)
    return None


constant = checked(variable, _reserved, **{"not": {"enum": sorted(RESERVED)}})
"""The name of a variable that an image may set."""
summary = checked(line, _hazardous)
"""A line of text that a definition can hold."""


@described({"type": ["string", "integer", "boolean"]})
def raw(node: Node, problems: Problems) -> Node:
    """Return a node as it is: its type is known later."""
    del problems
    return node


values = mapping(raw, key=variable)
"""Values for the parameters of a layer, which say later what each must be."""
