"""Verify an image by its checks, and report the results.

``lumi-verify`` runs in the image. These modules start it on this host or in a Slurm job, add checks
that only the host can make, and write the reports.
"""
