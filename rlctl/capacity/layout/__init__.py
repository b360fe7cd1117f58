"""How servers store limiter state in memory. Pure."""
