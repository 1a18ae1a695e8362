"""The built-in demo model (placeholder)."""

from core.clock import Clock


class DemoHandle:
    name = provider = "demo"
    context_window, max_output, is_demo = 32768, 4096, True

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
