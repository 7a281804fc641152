"""Stands in for that of Apex 1.10."""


def cpu_arch():
    return "-march=native"
