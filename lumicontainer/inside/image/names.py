"""Normalize names of Python packages."""


def plain_name(name: str) -> str:
    """Return a package's normalized name (PEP 503)."""
    return "-".join(filter(None, name.lower().replace("_", "-").replace(".", "-").split("-")))
