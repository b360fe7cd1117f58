"""The limiter for threads."""
