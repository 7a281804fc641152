"""Keep images in registries: as parts that images share, or as one file."""
