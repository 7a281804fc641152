"""What the dynamic loader sees: shared libraries, what they need, where they are found.

Nothing is run or loaded for it. The modules use the standard library of Python 3.9 alone and import
nothing of lumicontainer, so that they also run in images.
"""
