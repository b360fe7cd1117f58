"""Limits as data: the rules file, its compiled revisions in the fleet, and how they are changed and taken back."""
