"""From the model to the text of configuration files. Pure."""
