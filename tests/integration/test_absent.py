"""A package that apt does not know ends a build as wrong input, at its place and with a hint."""

from pathlib import Path

from lumicontainer.errors import INPUT_WRONG

from .conftest import lumicontainer, write_small


def test_a_misspelled_package_is_wrong_input(small: Path, tmp_path: Path) -> None:
    del small  # Its base is in the cache.
    layer = "summary: x\npackages:\n  apt: [libfabric-devel]\n"
    own = write_small(tmp_path / "own", {"layers/greet/layer.yaml": layer})
    (own / "small.yaml").write_text("summary: x\nbase: tiny\nlayers: [greet]\n")
    output = tmp_path / "x.sif"
    done = lumicontainer("build", "small", "--recipes", own, "--output", output)
    assert done.returncode == INPUT_WRONG, done.stderr
    assert "Debian package 'libfabric-devel' not found in apt's sources" in done.stderr
    assert "greet/layer.yaml:3:9" in done.stderr
    assert "did you mean 'libfabric-dev'?" in done.stderr
    assert not output.exists()
