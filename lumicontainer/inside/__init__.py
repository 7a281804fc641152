"""The programs that are baked into images: standard library only, Python 3.9 or newer.

In an image this package is called ``lumi_inside``, so its modules import each other relatively.
They avoid what is slow to import (``typing``, ``re``, ``dataclasses``, ``argparse``, ``socket``):
each rank pays for it at its start.
"""

__version__ = "0.1.0"
