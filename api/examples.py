"""Examples that the OpenAPI description shows."""

from __future__ import annotations

from typing import Any, Final

from api.schemas import EXAMPLE_ID

SESSION_ID: Final = EXAMPLE_ID
RUN_ID: Final = "019b2f4e-7d1e-7c02-b6a1-54c1f0e2ab90"
MESSAGE_ID: Final = "019b2f4e-7d20-7e55-8a3d-0d9f4c7be611"

FRAME: Final[dict[str, Any]] = {
    "type": "token",
    "session_id": SESSION_ID,
    "run_id": RUN_ID,
    "seq": 3,
    "content": "17 * 23 is",
    "message_id": MESSAGE_ID,
}
