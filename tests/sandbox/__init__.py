"""Files of projects, on a real disk."""
