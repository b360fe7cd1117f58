"""One HTML page and its plots, for every report. Pure."""
