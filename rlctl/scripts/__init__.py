"""The release of Lua scripts: its manifest, the commands that scripts may call, and loading on a node.

Pure: `manifest`, `rights`.
"""
