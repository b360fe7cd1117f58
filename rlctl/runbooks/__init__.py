"""Runbooks: incident pages that people read, that rlctl carries out, and that are tried against real faults.

Pure: `page`, `rehearsal`, `variables`.
"""
