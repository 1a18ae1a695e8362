"""Processes killed, stopped and told to end under load, and a checker of what clients saw."""
