"""Put more Python packages on a finished image, as one squashfs beside it."""
