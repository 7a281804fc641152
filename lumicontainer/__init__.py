"""Build, prove and run training containers for LUMI from one declarative recipe."""

__version__ = "0.1.0"
