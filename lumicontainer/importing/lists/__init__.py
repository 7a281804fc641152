"""Read lists of packages of other tools."""
