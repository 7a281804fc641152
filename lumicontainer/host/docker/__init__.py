"""Run programs by a Docker daemon that sees the files of this host."""
