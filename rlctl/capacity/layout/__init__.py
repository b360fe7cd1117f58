"""How servers lay limiter state out in memory. Pure."""
