"""Run programs: their output, its log, and their limits."""
