"""The programs in images. They need Python 3.9 or newer and its standard library, nothing else.

In an image this package is called ``lumi_inside``, so its modules import each other relatively.
"""

__version__ = "0.1.0"
