"""Reads settings files: YAML with line numbers, mistakes, units, types of values, and tables of keys. Pure."""
