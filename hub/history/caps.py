"""The caps that keep tickets from being served."""

from __future__ import annotations

from hub.core import Hub


async def cap_of(hub: Hub, label: str) -> tuple[int, int]:
    """Return the cap of a label, 0 for none, and its live leases."""
    keys = hub.store.keys
    caps, live = await hub.store.read_all(
        [("HMGET", keys.caps, f"set:{label}", f"env:{label}", "set", "env"), ("ZCARD", keys.in_flight(label))]
    )
    return int(next((each for each in caps if each is not None), 0)), int(live)


async def capped_by(hub: Hub, label: str, cap: int, live: int) -> tuple[str, str] | None:
    """Return which cap keeps a label from being served, and the rule by which that ends; None where none does."""
    if cap and live >= cap:
        rule = f"When a lease of {label} ends, or its cap is raised (hub caps): first come, first served."
        return f"{live} of {cap} leases that the cap of {label} allows are live", rule
    if reached := await hub.queue.served_cap(label):
        by, cap, live = reached
        rule = f"When such a lease ends, or the cap is raised (hub caps set {by} N --served): labels take turns."
        why = f"{live} of {cap} leases that the cap of {by} allows for what it and the pools below it serve are live"
        return why, rule
    return None
