"""An example of an extension: a tool of its own and an agent that uses it."""
