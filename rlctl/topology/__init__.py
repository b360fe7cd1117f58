"""The topology file: its settings, checks, nodes and their placement, as a frozen value. Pure."""
