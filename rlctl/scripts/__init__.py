"""The life of the Lua limiter scripts: the release, what every node holds of it, loading and verifying."""
