"""Carry a plan out: steps in order, each recorded, interruptible between them, and read again afterwards.

Pure: `progress`.
"""
