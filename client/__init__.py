"""Typed Python client of the HTTP API."""
