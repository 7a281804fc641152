"""Get the sources that users name by their place, as files that uv can read."""
