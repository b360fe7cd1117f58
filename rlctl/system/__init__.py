"""Wrappers for the kernel, files, the network and other programs, one module for each.

Pure: `host_facts`, `open_files`, `playbook_events`, `server_log`.
"""
