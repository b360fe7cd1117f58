"""The commands of `rlctl rules`."""
