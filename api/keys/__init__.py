"""Keys over HTTP."""
