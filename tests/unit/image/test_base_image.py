"""A base that is an image file is named by its sha256, wherever the file is."""

import hashlib
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lumicontainer.core.model import Bootstrap
from lumicontainer.core.plan.base import after_bootstrap
from lumicontainer.core.plan.plan import make_plan
from lumicontainer.core.plan.records import resolved_record
from lumicontainer.core.render.render import render
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.core.resolve.inputs import inputs
from lumicontainer.errors import DownloadError, HostError, InputError
from lumicontainer.image import sif
from lumicontainer.image.assembly.layout import SUPERBLOCK_SIZE
from lumicontainer.image.base_image import require_image
from lumicontainer.inside.image import extensible

from ...conftest import HELLO
from .test_survey import LUMI, image_of

Resolve = Callable[..., Resolved]
SHA = "0123456789abcdef" * 4
PLACE = "/appl/local/containers/theirs.sif"


LOCAL = f"agent: localimage, file: {PLACE}, sha256: {SHA}"


def base(bootstrap: str = LOCAL) -> dict[str, str]:
    text = f"summary: built elsewhere\nbootstrap: {{cpu: {{{bootstrap}}}}}\n"
    text += 'provides: {python: "3.12", pytorch: "2.9.1+rocm6.4"}\n'
    return {"layers/tiny/layer.yaml": text}


@pytest.mark.slow
def test_the_sha256_decides_the_key_and_the_path_does_not(resolved: Resolve) -> None:
    texts = (LOCAL, LOCAL.replace(PLACE, "/elsewhere/other.sif"), LOCAL.replace(SHA, "f" * 64))
    key, elsewhere, changed = (make_plan(resolved(base(each)), ()).base_key for each in texts)
    assert key == elsewhere != changed


def test_a_base_image_is_pinned_and_recorded_without_its_path(resolved: Resolve) -> None:
    resolution = resolved(base())
    assert [each.pinned for each in inputs(resolution)] == [True]
    assert resolved_record(resolution)["base"]["image"] == f"theirs.sif@sha256:{SHA}"
    assert PLACE not in str(resolved_record(resolution))


def test_a_definition_begins_with_the_file_and_a_dockerfile_is_refused(resolved: Resolve) -> None:
    plan = make_plan(resolved(base()), ())
    text = render(plan, "def", mirror="")
    assert f"\nBootstrap: localimage\nFrom: {PLACE}\n" in text
    assert f"echo '{SHA}  {PLACE}' | sha256sum --check" in text
    with pytest.raises(InputError, match=f"image file, {PLACE}, and Docker begins"):
        render(plan, "dockerfile", mirror="")


def test_what_a_base_provides_satisfies_the_layers_that_require_it(resolved: Resolve) -> None:
    needy = HELLO["layers/greet/layer.yaml"] + "requires: [pytorch]\n"
    assert resolved({**base(), "layers/greet/layer.yaml": needy})
    with pytest.raises(InputError, match="'greet' requires 'pytorch' before it"):
        resolved({"layers/greet/layer.yaml": needy})


@pytest.mark.parametrize("requires", ["", "requires: [pytorch]\n", "requires: [tiny]\n"])
def test_a_layer_compiles_on_all_of_the_base_that_provides_what_it_requires(
    resolved: Resolve, requires: str
) -> None:
    own = (
        "path: [/opt/conda/bin]\nenvironment: {CONDA: /opt/conda}\npackages: {apt: [libaio-dev]}\n"
    )
    files = {
        "layers/tiny/layer.yaml": base()["layers/tiny/layer.yaml"] + own,
        "layers/greet/layer.yaml": HELLO["layers/greet/layer.yaml"] + requires,
        "layers/greet/compile.sh": "pip wheel --wheel-dir $wheels .\n",
    }
    below, greet, _ = make_plan(resolved(files), ()).steps
    assert greet.compiled
    assert greet.compiled.parent == below.key
    assert "\nexport PATH=/opt/conda/bin:" in greet.compiled.program
    assert "export CONDA=/opt/conda\n" in greet.compiled.program


@pytest.mark.parametrize(
    ("bootstrap", "complaint"),
    [
        ("agent: localimage", "a bootstrap by localimage needs 'file'"),
        (f"agent: localimage, file: {PLACE}", "a bootstrap by localimage needs 'sha256'"),
        (LOCAL.replace(PLACE, "a.sif"), "absolute path of an image file in plain"),
        (f"{LOCAL}, docker_image: 'u:n'", "'docker_image' is not for localimage"),
        (f"{LOCAL}, include: [curl]", "'include' is for debootstrap"),
        (f"agent: docker, docker_image: 'u:n', sha256: {SHA}", "'sha256' is not for docker"),
        ("agent: docker", "a bootstrap by docker needs 'docker_image'"),
    ],
)
def test_an_agent_has_its_own_keys(resolved: Resolve, bootstrap: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        resolved(base(bootstrap))


@pytest.mark.slow
def test_a_base_that_is_our_own_image_lets_pip_install(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    venv.mkdir()
    (venv / "pip.conf").write_text(f"[install]\nconstraint = {venv}/read-only.txt\n")
    (venv / "read-only.txt").write_text(extensible.HINT)
    text = after_bootstrap(Bootstrap("localimage", file=PLACE))
    loop = text[text.index("for file") : text.index("done\n") + 5].replace("/opt/venv", str(venv))
    subprocess.run(["bash", "-euc", loop], check=True)
    assert list(venv.iterdir()) == []


def test_another_file_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="No such file"):
        require_image(tmp_path / "missing.sif", SHA, {})
    (tmp_path / "text.sif").write_text("no image")
    with pytest.raises(InputError, match="it has no SIF header"):
        require_image(tmp_path / "text.sif", SHA, {})


@pytest.mark.slow
def test_a_changed_file_that_no_program_reads_is_named(tmp_path: Path) -> None:
    image = image_of(tmp_path, LUMI)
    root = sif.root(image)
    with image.open("r+b") as file:
        file.seek(root.offset + SUPERBLOCK_SIZE)
        file.write(bytes(root.size - SUPERBLOCK_SIZE))
    with pytest.raises(DownloadError, match="differs from its sha256") as caught:
        require_image(image, SHA, {"python": "3.12"})
    assert caught.value.problems[0].where == str(image)


@pytest.mark.slow
def test_a_changed_file_names_the_versions_that_differ(tmp_path: Path) -> None:
    image = image_of(tmp_path, LUMI)
    stated = {"python": "3.12", "pytorch": "2.7.1+rocm6.2", "horovod": "0.28.1"}
    with pytest.raises(DownloadError) as caught:
        require_image(image, SHA, stated)
    digest = hashlib.sha256(image.read_bytes()).hexdigest()
    (problem,) = caught.value.problems
    assert problem.why.splitlines() == [
        f"expected {SHA}",
        f"found    {digest}",
        "pytorch: 2.7.1+rocm6.2 in the layer, 2.9.1+rocm6.4 in the image",
        "horovod: 0.28.1 in the layer, none in the image",
    ]
    assert "write this sha256 and its versions into" in problem.hint
    assert image.stat().st_size in require_image(image, digest, stated)
