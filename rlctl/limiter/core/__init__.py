"""What the limiter for threads and the one for asyncio share.

Pure: `calls`, `commands`, `lookup`, `routes`, `settings`.
"""
