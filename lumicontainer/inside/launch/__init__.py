"""Read what a launcher sets for its ranks, and replace this process by the program."""
