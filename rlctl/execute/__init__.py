"""Carry out a plan: lock the fleet, run and record each step, stop between steps on request, check the result.

Pure: `progress`.
"""
