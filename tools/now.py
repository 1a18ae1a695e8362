"""Tells the agent what time it is."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from core.errors import ToolFailed
from core.tooling import ToolContext, define_tool


@define_tool(group="basics", label="当前时间", idempotent=True)
async def now(ctx: ToolContext, timezone: str = "UTC") -> dict[str, Any]:
    """Tell the present date, time and weekday in a time zone.

    Args:
        ctx: handed in by the server.
        timezone: an IANA name such as `Asia/Shanghai` or `Europe/Berlin`.
    """
    try:
        zone = ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ToolFailed(
            f"There is no time zone {timezone[:60]!r}. Use a name such as Asia/Shanghai."
        ) from None
    moment = ctx.clock.now().astimezone(zone)
    return {
        "time": moment.isoformat(timespec="seconds"),
        "weekday": moment.strftime("%A"),
        "timezone": timezone,
    }
