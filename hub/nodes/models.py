"""What nodes say, and what they are told. Pure."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import NamedTuple

from hub.errors import InvalidValue

ID_MAX = 512  # characters of a raw node id; a bound, far above host names and UUIDs
BEATS_PER_TIMEOUT = 6  # a node may lose five beats in a row before it is stale


class Beat(NamedTuple):
    """A heartbeat: `version` is the last one the node was told."""

    node_id: str
    version: int = 0
    recycled: tuple[str, ...] = ()


class Orders(NamedTuple):
    """The answer to a heartbeat. `lent` is None when nothing changed since the version the node named."""

    known: bool
    drain: bool = False
    version: int = 0
    lent: dict[str, str] | None = None
    recycle: tuple[str, ...] = ()


@dataclass(frozen=True)
class Registration:
    """What a node says of itself."""

    node_id: str
    apps: tuple[str, ...] = ()
    capacity: int = 1
    labels: dict[str, str] = field(default_factory=dict)
    base_url: str = ""


@dataclass(frozen=True)
class Node:
    """A node as operators see it. `state`: `alive`, `suspect` (half the timeout without a beat) or `stale`."""

    id: str
    state: str
    draining: bool
    last_seen: str
    since_beat_ms: int | None
    capacity: str
    apps: tuple[str, ...]
    labels: str
    base_url: str
    slots: int
    lent: int


def check_node_id(raw: str) -> str:
    """The id without blanks around it; raises `InvalidValue` when it is empty or too long."""
    trimmed = raw.strip()
    if not trimmed:
        raise InvalidValue("missing NodeId: a node id must not be blank", member="nodeId")
    if len(trimmed) > ID_MAX:
        raise InvalidValue(f"a node id has at most {ID_MAX} characters; this one has {len(trimmed)}", member="nodeId")
    return trimmed


def next_beat_ms(timeout_ms: int) -> int:
    """When to beat next: a sixth of the timeout, give or take a tenth, so that a fleet does not beat in step."""
    return int(timeout_ms / BEATS_PER_TIMEOUT * (0.9 + 0.2 * random.random()))
