"""Whole conversations over real HTTP, with a scripted strict provider and real PostgreSQL."""
