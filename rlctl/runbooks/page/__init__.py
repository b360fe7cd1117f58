"""A page as a value: read, checked, and compared with what commands print. Pure."""
