"""Measures the memory of a running server or fleet. Pure: `estimate`, `sampled`."""
