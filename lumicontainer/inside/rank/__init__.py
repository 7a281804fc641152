"""Decide what one rank gets: its GPU, cores, threads, variables and caches."""
