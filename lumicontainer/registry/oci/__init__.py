"""Write images as ordinary OCI images."""
