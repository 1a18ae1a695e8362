"""Bundled features, and the door authors import from."""
