"""Renders the configuration files of servers, Docker Compose and Ansible as text. Pure."""
