"""Health over HTTP."""
