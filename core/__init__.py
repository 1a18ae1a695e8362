"""Shared vocabulary of every room: types, errors, events, settings, ports."""
