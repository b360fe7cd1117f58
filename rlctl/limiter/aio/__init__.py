"""The limiter for asyncio."""
