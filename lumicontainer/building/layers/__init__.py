"""Build the layers of an image, or take them from the cache."""
