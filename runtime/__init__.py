"""Transport-free engine: admission, runs, worker, journal, interrupts."""
