"""Built-in tools and the agent that everybody begins with."""
