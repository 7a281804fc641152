"""Look at a running job on its nodes."""
