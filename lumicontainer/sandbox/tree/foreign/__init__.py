"""The one way to unpack trees that others made: images of registries and image files."""
