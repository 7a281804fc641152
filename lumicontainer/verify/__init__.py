"""``lumicontainer verify``: prove an image by the checks that it brings, and tell what came of it.

What runs in the image is its own ``lumi-verify``; this is what starts it, here or in a job of
Slurm, in more ways than one, with checks of its own that need the host, and what writes the report.
"""
