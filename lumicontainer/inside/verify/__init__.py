"""``lumi-verify``: run the checks that an image brings with it, and tell what they found.

Each check is a script of its own (``checks/`` of the image) and runs as a process of its own. What
it proves, needs and must reach stands in ``checks.json``; what came of it is an ``Outcome``.
"""
