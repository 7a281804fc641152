"""Download the files of packages, build wheels of sources, and install them."""
