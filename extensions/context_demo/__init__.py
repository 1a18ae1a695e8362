"""An example of a service that a tool shares: a glossary of ventilation. Off by default."""
