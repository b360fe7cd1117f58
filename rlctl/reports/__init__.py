"""The HTML page and the plots of every report. Pure."""
