"""Puts names into an order in which each comes after those it needs, and finds circles."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping


def arranged(needs: Mapping[str, Collection[str]]) -> tuple[list[str], list[list[str]]]:
    """Return the names in order, and each circle that stands in the way.

    Args:
        needs: for each name those that come before it; unknown ones are left out of account.

    Returns:
        The names, the alphabet deciding where nothing else does; names in a circle or behind one
        are missing. A circle begins and ends with the same name.
    """
    left = {name: {one for one in wanted if one in needs} for name, wanted in needs.items()}
    order = _order(left)
    remaining = {name: wanted - set(order) for name, wanted in left.items() if name not in order}
    circles: list[list[str]] = []
    while remaining:
        circle = _circle(remaining)
        circles.append(circle)
        # What is left without this circle may hold others that have nothing to do with it.
        rest = {n: wanted - set(circle) for n, wanted in remaining.items() if n not in circle}
        free = _order(rest)
        remaining = {n: wanted - set(free) for n, wanted in rest.items() if n not in free}
    return order, circles


def _order(needs: Mapping[str, Collection[str]]) -> list[str]:
    waiting = {name: len(wanted) for name, wanted in needs.items()}
    behind: dict[str, list[str]] = {name: [] for name in needs}
    for name, wanted in needs.items():
        for one in wanted:
            behind[one].append(name)
    ready = [name for name, count in waiting.items() if count == 0]
    heapq.heapify(ready)
    order: list[str] = []
    while ready:
        name = heapq.heappop(ready)
        order.append(name)
        for other in behind[name]:
            waiting[other] -= 1
            if waiting[other] == 0:
                heapq.heappush(ready, other)
    return order


def _circle(needs: Mapping[str, Collection[str]]) -> list[str]:
    """Walk along what is needed until a name comes again; every name here needs another one."""
    path = [min(needs)]
    while True:
        following = min(needs[path[-1]])
        if following in path:
            circle = path[path.index(following) :]
            first = circle.index(min(circle))
            return [*circle[first:], *circle[: first + 1]]
        path.append(following)
