"""One step of the agent loop each."""
