"""Read the shell text of other tools' files."""
