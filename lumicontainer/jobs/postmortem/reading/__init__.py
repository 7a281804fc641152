"""Read what a job left: every format has a module, and nothing in a file is trusted."""
