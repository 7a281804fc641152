"""Read shared libraries, their needs and their versions as the dynamic loader does.

Nothing is executed or loaded. The modules import nothing outside this package, so it can be
mounted into a container on its own.
"""
