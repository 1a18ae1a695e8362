"""Tests of the room `nodes`."""
