"""Read a batch script into a model of directives, variables and commands."""
