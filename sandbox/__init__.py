"""Files of projects, and later the executors."""
