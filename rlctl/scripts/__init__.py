"""The release of Lua limiter scripts: its manifest, what it may run, and how a node is given it.

Pure: `manifest`, `rights`.
"""
