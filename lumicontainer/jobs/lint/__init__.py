"""Judge batch scripts by the rules of a platform."""
