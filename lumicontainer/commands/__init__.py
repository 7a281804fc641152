"""One module a verb: ``add_arguments(parser)`` and ``run(arguments) -> exit code``."""
