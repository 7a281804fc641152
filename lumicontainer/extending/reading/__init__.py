"""Read what users want to add: words, and files of other tools."""
