"""Auth over HTTP."""
