"""The explanation of a node: why it is alive, suspect or stale, whether its slots are lent, and what comes next."""

from __future__ import annotations

from hub.capacity.nodes.models import Node
from hub.core import Hub
from hub.history.explained import NextStep, Now, seconds
from hub.store.keys import key_part

_KEPT_S = 30  # while expiry is off, each sweep keeps a stale node for this long


async def node_now(hub: Hub, node_id: str) -> Now | None:
    """Return the present state of a node and its next steps; None for a node that is not registered."""
    found = await hub.nodes.describe([node_id])
    if not found:
        return None
    node = found[0]
    keys = hub.store.keys
    part = key_part(node_id)
    alive_ms, brake, incarnation = await hub.store.read_all(
        [
            ("PTTL", keys.node_alive(part)),
            ("HGET", keys.brake, "state"),
            ("HGET", keys.orders(part), "incarnation"),
        ]
    )
    facts = {
        "sinceBeatSeconds": None if node.since_beat_ms is None else node.since_beat_ms / 1000,
        "lastSeenUtc": node.last_seen or None,
        "draining": node.draining,
        "kept": node.kept,
        "slots": node.slots,
        "lent": node.lent,
        "incarnation": incarnation,
        "timeoutSeconds": hub.nodes.timeout_ms / 1000,
        "brake": brake or "off",
    }
    steps = [*_silence(node, hub.nodes.timeout_ms), await _end(hub, node, alive_ms, brake)]
    if node.deadline_left_ms is not None:
        rule = "The deadline of its drain: what is still lent of it then ends."
        steps.append(NextStep("grant.ended", rule, node.deadline_left_ms))
    return Now(node.state, _because(node, hub.nodes.timeout_ms), facts, tuple(steps))


def _because(node: Node, timeout_ms: int) -> str:
    half = seconds(timeout_ms / 2)
    if node.since_beat_ms is None:
        beat = "No hub ever heard it: it writes its heartbeats into Redis itself"
    else:
        beat = f"Its last heartbeat was {seconds(node.since_beat_ms)} ago on the hub clock"
    match node.state:
        case "suspect" if (node.since_beat_ms or 0) * 2 > timeout_ms:
            text = f"{beat}, more than half of HUB_NODE_TIMEOUT ({half}): nothing of it is lent until it beats again."
        case "suspect":
            text = f"{beat}, and its alive key is gone: it is judged by its last beat until the next one."
        case "stale" if node.kept:
            text = f"{beat}, more than HUB_NODE_TIMEOUT ({seconds(timeout_ms)}); it is kept, for expiry is off."
        case "stale":
            text = f"{beat}, more than HUB_NODE_TIMEOUT ({seconds(timeout_ms)}), and nothing else says that it lives."
        case _:
            text = f"{beat}."
    return f"{text} It {node.held_back}: nothing more of it is lent." if node.held_back else text


def _silence(node: Node, timeout_ms: int) -> list[NextStep]:
    """Return the step by which a silent node becomes suspect; [] if it is not alive or never sent a heartbeat."""
    if node.state != "alive" or node.since_beat_ms is None:
        return []
    rule = "Unless it beats: half of HUB_NODE_TIMEOUT without a beat. Its slots are held back until it does."
    return [NextStep("node.suspect", rule, max(0, timeout_ms // 2 - node.since_beat_ms))]


async def _end(hub: Hub, node: Node, alive_ms: int, brake: str | None) -> NextStep:
    """Return the step that ends a long silence: the node is kept or removed, by the expiry switch and the brake."""
    settings = hub.settings
    override, by, at = await hub.clock.read_switch()
    expires = settings.sweeper_expire if override is None else override
    source = "HUB_SWEEPER_EXPIRE" if override is None else f"switched by {by} at {at}"
    silent_ms = 0 if node.since_beat_ms is None else hub.nodes.timeout_ms - node.since_beat_ms
    due_ms = max(0, silent_ms, alive_ms)
    swept = f"by a sweep, which comes every {settings.node_sweep_interval_s:g} s"
    if not expires:
        rule = f"Unless it beats: expiry is off ({source}), so it is kept, for {_KEPT_S} s at a time, {swept}."
        return NextStep("node.kept", rule, due_ms)
    rule = f"Unless it beats: silent for HUB_NODE_TIMEOUT and expiry is on ({source}), so it is removed {swept}."
    if brake == "engaged":
        rule += " The brake is engaged: so many are silent at once that none goes at first, then only some at a time."
    return NextStep("node.expired", rule, due_ms)
