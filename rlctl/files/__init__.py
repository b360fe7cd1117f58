"""Documents with line numbers: YAML, mistakes, units, values, tables of keys. Pure."""
