"""The commands of SingularityCE."""

from lumicontainer.engines.apptainer import Apptainer


class Singularity(Apptainer):
    """Implement ``Engine`` by SingularityCE (tested with 4.1.1), whose options are Apptainer's.

    It rejects squashfs with zstd ("unknown compression algorithm value 6").
    """

    name = "singularity"
    compression = "gzip"
    can_overlay = False


ENGINE = Singularity
