"""Code that the limiter for threads and the limiter for asyncio share.

Pure: `calls`, `commands`, `lookup`, `routes`, `settings`.
"""
