"""HTTP routes by area, SSE encoding, the one error handler."""
