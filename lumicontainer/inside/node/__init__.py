"""Read what the kernel reports of this node, and run tools of the node with a time limit."""
