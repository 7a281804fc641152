"""Slurm jobs: submit a batch script, follow its log, cancel it, report how it ended."""
