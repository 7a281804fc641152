"""``lumi-verify``: run the checks in an image, and report their outcomes.

Each check is a script in ``checks/`` of the image, and runs as its own process. ``checks.json``
holds its summary, needs and thresholds. Its result is an ``Outcome``.
"""
