"""Runbooks: incident pages that operators read, rlctl carries out, and rehearsals test against real faults.

Pure: `page`, `rehearsal`, `variables`.
"""
