"""Chat over HTTP."""
