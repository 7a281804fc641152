"""One module a verb: ``add_arguments(parser)``, and ``run(arguments)``, which may return a code."""
