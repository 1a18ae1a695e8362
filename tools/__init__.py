"""Built-in tools and the small wrappers around every tool."""
