"""Errors for the answers to a registration that is refused."""

from __future__ import annotations

from hub.errors import NodeIdInUse, Settling


def in_use(node_id: str, host: str, ago_ms: int, timeout_ms: int) -> NodeIdInUse:
    """Return the refusal of a process whose node runs on another host."""
    return NodeIdInUse(
        f"node {node_id} runs on {host}, and was heard {ago_ms / 1000:.1f} s ago; give this one an id of its own, or "
        "stop that one",
        host=host, heardMs=ago_ms, silentInMs=max(0, timeout_ms // 2 - ago_ms) + 1,
    )  # fmt: skip


def settling(node_id: str, ms: int) -> Settling:
    """Return the refusal of a process that is new as a node of which the store has lost the processes before."""
    return Settling(
        f"the store was lost a moment ago, and a process of node {node_id} that ran before this one may yet report its "
        "leases",
        retry_after_s=ms / 1000,
    )
