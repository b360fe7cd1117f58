"""Configuration files of servers, compose and Ansible, rendered as text. Pure."""
