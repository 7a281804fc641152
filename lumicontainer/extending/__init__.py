"""Put more Python packages on a finished image, as one squashfs next to it."""
