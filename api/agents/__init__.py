"""Agents over HTTP."""
