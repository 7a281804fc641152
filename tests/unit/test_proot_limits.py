"""What PRoot cannot do is found in scripts, and only where a program would do it."""

from collections.abc import Callable

import pytest

from lumicontainer.build.runtimes.proot_limits import problems
from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.core.resolve.resolve import resolve

Resolve = Callable[..., Resolved]


def whys(resolved: Resolve, script: str) -> list[tuple[str, str]]:
    """Return the lines of a script that cannot run, with the reasons."""
    found = resolved({"layers/greet/install.sh": f"set -e\n{script}\n"})
    seen = [each for layer in found.included() for each in problems(layer)]
    return [(each.where.partition("install.sh:")[2], each.why) for each in seen]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("mknod /opt/null c 1 3", "device nodes"),
        ("if true; then /bin/mknod /opt/null b 1 3; fi", "device nodes"),
        ("mkdir /a && mount --bind /a /b", "mount file systems"),
        ("setcap cap_net_raw+ep /bin/ping", "capabilities"),
        ("X=1 su nobody -c id", "belong to root"),
        ("(sudo -u nobody id)", "belong to root"),
    ],
    ids=["device", "path", "mount", "capability", "user", "sudo"],
)
def test_what_proot_cannot_do_is_found(resolved: Resolve, line: str, why: str) -> None:
    ((where, said),) = whys(resolved, line)
    assert where == "2:1"
    assert why in said


@pytest.mark.parametrize(
    "text",
    [
        "mknod /opt/pipe p",
        "setcap cap_net_raw+ep /bin/ping || chmod u+s /bin/ping",
        "echo mount  # mount",
        "apt-get install -y \\\n    sudo \\\n    mount",
        "cat >/opt/start <<'END'\nmount --bind /a /b\nEND",
        "chmod u+s /opt/program",
    ],
    ids=["pipe", "handled", "comment", "packages", "document", "setuid"],
)
def test_what_proot_can_do_is_not(resolved: Resolve, text: str) -> None:
    assert whys(resolved, text) == []


def test_a_command_after_a_document_is_found(resolved: Resolve) -> None:
    text = "cat >/opt/start <<END\nhello\nEND\nmount /b"
    assert [where for where, _ in whys(resolved, text)] == ["5:1"]


FOR_LUMI = ("jax", "megatron-deepspeed", "pytorch", "pytorch-deepspeed", "rocm")


@pytest.mark.parametrize("recipe", FOR_LUMI)
def test_proot_can_build_what_is_shipped_for_lumi(recipe: str) -> None:
    found = resolve(open_catalog().materials(recipe, "lumi-g"))
    assert [each for layer in found.included() for each in problems(layer)] == []
