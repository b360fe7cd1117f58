"""From wish and reality to steps: a pure planner, its simulation, and what is wrong right now."""
