"""Preferences over HTTP."""
