"""Stands in for the builder of Apex 1.10."""


def cpu_arch():
    return "-march=native"
