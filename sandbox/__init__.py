"""Where untrusted names, files and code are kept inside their walls."""
