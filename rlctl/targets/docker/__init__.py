"""Target `docker`: containers on this machine."""
