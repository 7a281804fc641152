"""An image has a form that every engine that meets it can read."""

import pytest

from lumicontainer.build.pipeline import choose_pack, compression_of
from lumicontainer.build.runtimes.runtime import Runtime
from lumicontainer.core.model import Platform
from lumicontainer.errors import InputError, Place

HERE = Platform("here", "any machine", "cpu", Place("here.yaml", 1, 1))
LUMI = HERE._replace(engine="singularity")


class Stacking(Runtime):
    """Stand for user namespaces with an Apptainer whose host has fuse-overlayfs."""

    name = "namespaces"
    stacks = True


class Flat(Runtime):
    """Stand for user namespaces with SingularityCE."""

    name = "namespaces"
    compression = "gzip"


APPTAINER, SINGULARITY = Stacking(), Flat()


@pytest.mark.parametrize(
    ("engine", "platform", "form", "compression"),
    [
        (APPTAINER, HERE, "layered", "zstd"),
        (APPTAINER, LUMI, "flat", "gzip"),
        (SINGULARITY, HERE, "flat", "gzip"),
    ],
    ids=["layers", "the platform reads none", "this host reads none"],
)
def test_an_image_has_the_form_that_both_engines_read(
    engine: Runtime, platform: Platform, form: str, compression: str
) -> None:
    assert choose_pack(None, engine, platform) == form
    assert compression_of(engine, platform) == compression


def test_a_form_that_this_hosts_engine_would_show_in_part_is_refused() -> None:
    with pytest.raises(InputError, match=r"(?s)cannot read layered images.*use --pack flat"):
        choose_pack("layered", SINGULARITY, HERE)


@pytest.mark.parametrize("form", ["layered", "flat"])
def test_a_form_that_is_asked_for_is_taken_where_it_can_be_read(form: str) -> None:
    assert choose_pack(form, APPTAINER, HERE) == form
