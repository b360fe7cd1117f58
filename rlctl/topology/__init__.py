"""What the operator wants: the topology file as a frozen value. Pure."""
