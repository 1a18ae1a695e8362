"""The assembled product over HTTP."""
