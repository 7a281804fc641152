"""Why a job died: read its logs and records, and name one cause.

Everything that is read was written by others, so it is data: sizes are bounded, links are not
followed, and pickles are read as plain values only.
"""
