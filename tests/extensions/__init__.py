"""Tests of the room `extensions`."""
