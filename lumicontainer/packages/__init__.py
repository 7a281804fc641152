"""Read the lists of packages that other tools write, each format once."""
