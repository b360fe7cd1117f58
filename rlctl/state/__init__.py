"""What this machine remembers of its fleets: folders, secrets, the fleet record."""
