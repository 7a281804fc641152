"""Read and change locks of packages (PEP 751)."""
