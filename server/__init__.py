"""Composition root and command line."""
