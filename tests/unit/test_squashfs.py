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


def test_layers_are_kept_where_the_engine_of_this_host_reads_them() -> None:
    assert choose_pack(None, APPTAINER, HERE) == "layered"
    assert compression_of(APPTAINER, HERE) == "zstd"


def test_an_image_for_a_platform_whose_engine_reads_no_layers_is_flat() -> None:
    assert choose_pack(None, APPTAINER, LUMI) == "flat"
    assert compression_of(APPTAINER, LUMI) == "gzip"


def test_an_image_is_flat_where_the_engine_of_this_host_reads_no_layers() -> None:
    assert choose_pack(None, SINGULARITY, HERE) == "flat"
    assert compression_of(SINGULARITY, HERE) == "gzip"


def test_a_form_that_this_hosts_engine_would_show_in_part_is_refused() -> None:
    with pytest.raises(InputError, match="cannot read layered images") as caught:
        choose_pack("layered", SINGULARITY, HERE)
    assert caught.value.problems[0].hint == "use --pack flat"


@pytest.mark.parametrize("form", ["layered", "flat"])
def test_a_form_that_is_asked_for_is_taken_where_it_can_be_read(form: str) -> None:
    assert choose_pack(form, APPTAINER, HERE) == form
