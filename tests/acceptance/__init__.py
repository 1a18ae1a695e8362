"""The real command as a process, seen from outside: what a person or a program meets."""
