"""A client for the terminal: speaks only HTTP, so it works against a server anywhere."""
