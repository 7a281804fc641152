"""The files by which other programs start images: module files, Jupyter kernels."""
