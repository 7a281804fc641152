"""Scripts are searched for work that PRoot cannot do, and only where a program would do it."""

from collections.abc import Callable

import pytest

from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.core.resolve.resolve import resolve
from lumicontainer.sandbox.runtimes.proot_limits import problems

Resolve = Callable[..., Resolved]


def whys(resolved: Resolve, script: str) -> list[tuple[str, str]]:
    """Return the lines of a script that cannot run, with the reasons."""
    resolution = resolved({"layers/greet/install.sh": f"set -e\n{script}\n"})
    seen = [each for layer in resolution.included() for each in problems(layer)]
    return [(each.where.partition("install.sh:")[2], each.why) for each in seen]


@pytest.mark.parametrize(
    ("text", "place", "why"),
    [
        ("mknod /opt/null c 1 3", "2:1", "device nodes"),
        ("if true; then /bin/mknod /opt/null b 1 3; fi", "2:1", "device nodes"),
        ("mkdir /a && mount --bind /a /b", "2:1", "mount file systems"),
        ("setcap cap_net_raw+ep /bin/ping", "2:1", "capabilities"),
        ("X=1 su nobody -c id", "2:1", "belong to root"),
        ("(sudo -u nobody id)", "2:1", "belong to root"),
        ("cat >/opt/start <<END\nhello\nEND\nmount /b", "5:1", "mount file systems"),
    ],
    ids=["device", "path", "mount", "capability", "user", "sudo", "after a document"],
)
def test_what_proot_cannot_do_is_found(resolved: Resolve, text: str, place: str, why: str) -> None:
    ((where, said),) = whys(resolved, text)
    assert where == place
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


FOR_LUMI = ("megatron-deepspeed", "pytorch", "pytorch-deepspeed", "rocm")


@pytest.mark.slow
@pytest.mark.parametrize("recipe", FOR_LUMI)
def test_proot_can_build_what_is_shipped_for_lumi(recipe: str) -> None:
    resolution = resolve(open_catalog().materials(recipe, "lumi-g"))
    assert [each for layer in resolution.included() for each in problems(layer)] == []
