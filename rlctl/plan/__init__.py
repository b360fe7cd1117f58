"""Plan the steps from the observed fleet to its topology, simulate them, and report findings. Pure."""
