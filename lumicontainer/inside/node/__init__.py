"""Read what the kernel reports of this node."""
