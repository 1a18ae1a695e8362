"""Model connections, provider differences, the demo model."""
