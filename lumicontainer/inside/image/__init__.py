"""Read the image that this runs in: its files, packages and virtual environments."""
