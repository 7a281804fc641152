"""Assemble one squashfs from the data blocks of several, without compressing them again."""
