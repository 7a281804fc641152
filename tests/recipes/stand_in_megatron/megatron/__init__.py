"""Stands in for Megatron's, which imports more than compiling needs."""

import transformers  # noqa: F401 - as upstream
