"""The effects: one wrapper for each thing outside rlctl."""
