"""What the limiter for threads and the one for asyncio share.

Pure: `asks`, `calls`, `lookup`, `routes`, `settings`.
"""
