"""The steps from what is there to what the topology asks for, their simulation, and findings. Pure."""
