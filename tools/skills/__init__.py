"""Finds, reads and hands out skills (SKILL-01)."""
