"""Runs a scenario: clients, faults, probes, recovery.

Pure: `client_spec`, `clients`, `preview`, `requests`, `run_request`.
"""
