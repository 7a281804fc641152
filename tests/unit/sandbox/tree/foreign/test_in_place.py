"""The tree of an image file becomes a base without being unpacked."""

import subprocess
from pathlib import Path

import pytest

from lumicontainer.cache.objects import INDEX
from lumicontainer.errors import InputError
from lumicontainer.image.assembly.reader import read_squashfs
from lumicontainer.inside.image import extensible
from lumicontainer.sandbox.tree.foreign.in_place import base_edits, read_rows
from lumicontainer.sandbox.tree.index import FILE, FOLDER, GONE, Row, merge, read_index

from ....image.assembly.layers import Entry, File, Tree, write_layer


def rows_of(tmp_path: Path, tree: Tree) -> dict[str, Row]:
    """Return the rows of the layer that makes a base of a tree."""
    layer = read_squashfs(write_layer(tmp_path / "image", tree))
    return base_edits(layer).layer_rows()


def refusal(tmp_path: Path, tree: Tree) -> str:
    with pytest.raises(InputError) as caught:
        rows_of(tmp_path, tree)
    return f"{caught.value.problems[0].where}: {caught.value.problems[0].why}"


MINIMAL: dict[bytes, Entry] = {
    b"etc": Tree({b"hosts": b"127.0.0.1 mine\n"}),
    b"var": Tree({b"lib": Tree({b"apt": Tree({b"lists": Tree({b"a": b"", b".b": b""})})})}),
}


def test_a_base_gets_what_engines_look_for_and_loses_its_caches(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, Tree(MINIMAL))
    assert {path for path, row in rows.items() if row.kind == GONE} == {"var/lib/apt/lists/a"}
    made = {path: row.mode for path, row in rows.items() if row.kind == FOLDER}
    assert made | {"tmp": 0o1777, "root": 0o700, "proc": 0o755, ".singularity.d/env": 0o755} == made
    assert {path for path, row in rows.items() if row.kind == FILE} == {
        *("etc/hostname", "etc/resolv.conf"),
        *(".singularity.d/env/99-base.sh", ".singularity.d/base-modes.txt"),
    }


def test_modes_that_the_makers_of_a_base_chose_are_listed(tmp_path: Path) -> None:
    files = {b"closed": Tree({b"f": b""}, mode=0o750), b"key": File(b"", 0o600), b"plain": b""}
    tree = Tree({b"opt": Tree({**files, b"open": File(b"", 0o666), b"new\nline": File(b"", 0)})})
    edits = base_edits(read_squashfs(write_layer(tmp_path / "image", tree)))
    listed = (edits.read(".singularity.d/base-modes.txt") or b"").split()
    assert listed == [b"/opt/closed", b"/opt/key", b"/opt/open", b"/root", b"/tmp", b"/var/tmp"]


def test_folders_above_a_change_keep_their_owners_and_modes(tmp_path: Path) -> None:
    lists = Tree({b"x": b""}, mode=0o700)
    rows = rows_of(
        tmp_path, Tree({b"var": Tree({b"lib": Tree({b"apt": Tree({b"lists": lists})})})})
    )
    assert rows["var/lib/apt/lists"].mode == 0o700


@pytest.mark.slow
def test_an_emptied_folder_shows_nothing_of_the_base(tmp_path: Path) -> None:
    image = write_layer(tmp_path / "image", Tree({b"dev": Tree({b"null": b"", b"d": Tree({})})}))
    edits = base_edits(read_squashfs(image))
    edits.write_layer(tmp_path, tmp_path / "upper")
    rows = merge([read_rows(read_squashfs(image)), read_index(tmp_path / INDEX)]).rows
    assert "dev" in rows
    assert not [path for path in rows if path.startswith("dev/")]


@pytest.mark.slow
def test_an_image_file_and_its_layer_make_one_image(tmp_path: Path) -> None:
    files = {b"f": File(b"setuid", 0o4755), b"l": "f", b"dev": Tree({b"x": b"y"})}
    image = tmp_path / "image"
    write_layer(image, Tree({**files, b"g": files[b"f"]}))
    edits = base_edits(read_squashfs(image))
    rows = read_rows(read_squashfs(image))
    assert (rows["f"].mode, rows["f"].uid, rows["g"].link) == (0o4755, 1000, "f")
    edits.write_layer(tmp_path, tmp_path / "upper")
    assert read_index(tmp_path / INDEX) == edits.layer_rows()


@pytest.mark.parametrize(
    ("tree", "complaint"),
    [
        ({b"etc": "elsewhere"}, "/etc: it is not a folder"),
        ({b".singularity.d": Tree({b"env": "/root"})}, "/.singularity.d/env: it is not a folder"),
        ({b"var": b"a file"}, "leads out"),
        ({b"var": "loop", b"loop": "var"}, "links lead to each other"),
        ({b"a": Tree({b".wh.b": b""})}, "/a/.wh.b: its name begins with .wh."),
    ],
)
def test_a_base_whose_paths_lead_elsewhere_is_refused(
    tmp_path: Path, tree: dict[bytes, "Tree | bytes | str"], complaint: str
) -> None:
    assert complaint in refusal(tmp_path, Tree({**tree}))


def test_links_of_folders_are_followed_as_in_a_container(tmp_path: Path) -> None:
    log = Tree({b"dpkg.log": b"x", b"kept": b"y"})
    tree = Tree({b"var": "usr/../data", b"usr": Tree({}), b"data": Tree({b"log": log})})
    gone = {path for path, row in rows_of(tmp_path, tree).items() if row.kind == GONE}
    assert gone == {"data/log/dpkg.log"}


def test_a_base_keeps_its_variables_also_through_two_images(tmp_path: Path) -> None:
    own = b". /.singularity.d/base-environment.sh\nexport B=2\n"
    env = Tree({b"90-environment.sh": own})
    tree = Tree({b".singularity.d": Tree({b"env": env, b"base-environment.sh": b"export A=1\n"})})
    edits = base_edits(read_squashfs(write_layer(tmp_path / "image", tree)))
    assert edits.read(".singularity.d/base-environment.sh") == b"export A=1\nexport B=2\n"


def test_a_base_that_is_our_own_image_lets_pip_install(tmp_path: Path) -> None:
    venv = {b"pip.conf": b"[install]\n", b"read-only.txt": extensible.HINT.encode()}
    managed = {b"EXTERNALLY-MANAGED": b"[externally-managed]\nError=of Debian\n"}
    tree = Tree(
        {
            b"opt": Tree({b"venv": Tree({**venv})}),
            b"usr": Tree({b"lib": Tree({b"python3.11": Tree({**managed})})}),
        }
    )
    gone = {path for path, row in rows_of(tmp_path, tree).items() if row.kind == GONE}
    assert gone == {"opt/venv/pip.conf", "opt/venv/read-only.txt"}


@pytest.mark.slow
def test_an_image_holds_no_more_than_its_size_allows(tmp_path: Path) -> None:
    tree, image = tmp_path / "tree", tmp_path / "image"
    tree.mkdir()
    with (tree / "sparse").open("wb") as file:
        file.truncate(300 << 20)
    subprocess.run(["mksquashfs", tree, image, "-quiet", "-no-progress"], check=True)
    for read in (base_edits, read_rows):
        with pytest.raises(InputError, match="64 times larger"):
            read(read_squashfs(image))
