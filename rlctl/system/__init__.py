"""Wrappers for everything outside the process: one module for each kind of effect.

Pure: `host_facts`, `open_files`, `playbook_events`, `server_log`.
"""
