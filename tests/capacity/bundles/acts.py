"""What nodes, operators, hubs and other programs do beside bundles, at the scripts themselves."""

from __future__ import annotations

import json
from typing import Any

from hub.capacity.attributes import read_attributes
from hub.capacity.models import slot_item
from tests.capacity.bundles.conftest import Bundles

TIMEOUT_MS = 50_000  # of nodes


def drain(fleet: Bundles, node: str, on: bool = True) -> tuple[int, int]:
    """Return how many slots of the node are held then, and how many lent."""
    _, _, held, lent, *_ = fleet.direct.call(
        "nodes/drain", id=node, part=node, on=int(on), deadline_ms="", cursor="0", limit=64, number="", reason="",
    )  # fmt: skip
    return held, lent


def operator_holds(fleet: Bundles, slot: str, reason: str) -> None:
    fleet.direct.call("capacity/hold", slot=slot, reason=reason, number="")


def node_holds(fleet: Bundles, node: str, slot: str, reason: str) -> None:
    fleet.direct.call(
        "nodes/hold", node=node, part=node, incarnation="", said_number="", whole=0, rest=(slot, reason)
    )  # fmt: skip


def beat(fleet: Bundles, node: str) -> None:
    fleet.direct.call("nodes/beat", timeout_ms=TIMEOUT_MS, rest=(node, node, "", ""))


def silence(fleet: Bundles, node: str) -> None:
    """Let a node be silent for half of its timeout."""
    fleet.redis.delete(f"node_alive:{node}")
    fleet.redis.zadd(
        "hub:beats", {node: int(fleet.redis.hget("hub:store", "clock_ms") or 0) - TIMEOUT_MS // 2 - 500}
    )  # fmt: skip


def leave(fleet: Bundles, node: str) -> None:
    fleet.direct.call("nodes/leave", id=node, part=node, limit=64, incarnation="")


def withdraw(fleet: Bundles, slot: str) -> None:
    node = slot.partition("-")[0]
    fleet.direct.call(
        "capacity/withdraw", slot=slot, node=node, part=node, only_free="", incarnation="", said_number="", reason="",
    )  # fmt: skip


def describe(fleet: Bundles, slot: str, attributes: object, node: str = "n") -> None:
    fleet.direct.call(
        "capacity/describe_slots", id=node, part=node, incarnation="", said_number="", classes_max=64,
        rest=(slot, read_attributes(attributes), "="),
    )  # fmt: skip


def publish_again(fleet: Bundles, slot: str, pool: str, policy: str, made: str = "", lent: tuple[str, ...] = ()) -> str:
    """Let a node publish a slot as it does after its lease, or report a lease of it: token, label, run and holder."""
    node = slot.partition("-")[0]
    facts = (slot, pool, slot_item(node, slot, "", {}), "", *(lent or [""] * 4), made, *[""] * 6)
    _, [word], *_ = fleet.direct.call(
        "capacity/publish", id=node, part=node, policy=policy, ttl_ms=1_000_000, incarnation="", said_number="",
        says="", classes_max=64, rest=facts,
    )  # fmt: skip
    return str(word)


def undo(fleet: Bundles, ticket: str, why: str = "gone", hub: str = "h1") -> list[Any]:
    answer: list[Any] = fleet.direct.call(
        "capacity/undo", request=ticket, attempt=f"try-{ticket}", hub=hub, why=why
    )  # fmt: skip
    return answer


def cancel(fleet: Bundles, ticket: str) -> list[Any]:
    answer: list[Any] = fleet.direct.call("queue/cancel", ticket=ticket, recalled=0, by="operator")
    return answer


def cap(fleet: Bundles, label: str, most: int | str, *, served: bool = False) -> None:
    fleet.direct.call("queue/set_cap", label=label, cap=most, served=int(served))


def renew(fleet: Bundles, bundle: str, by: str = "", ttl_ms: int = 2_000_000) -> list[Any]:
    answer: list[Any] = fleet.direct.call(
        "capacity/renew_bundle", bundle=bundle, ttl_ms=ttl_ms, max_ms=86_400_000, by=by
    )  # fmt: skip
    return answer


def give_all_back(fleet: Bundles, bundle: str, by: str = "") -> list[Any]:
    answer: list[Any] = fleet.direct.call("capacity/return_bundle", bundle=bundle, by=by)
    return answer


def set_aside(fleet: Bundles) -> set[str]:
    return set(fleet.redis.smembers("hub:reserved"))


def bundle_of(fleet: Bundles, slot: str) -> str:
    return str(json.loads(fleet.redis.hget(f"session:{slot}", "holder"))["bundle"])


def lend_all(fleet: Bundles, slots: list[str], label: str = "gpu:a") -> None:
    """Lend these slots, all that are free, to callers of one slot each."""
    for _ in slots:
        assert fleet.borrow((label, ""), wait=0) in slots


def reserve(fleet: Bundles, *parts: tuple[str, str, int], **more: Any) -> str:
    """Let a bundle wait until slots are set aside for it; return its ticket."""
    ticket = fleet.all_of(*parts, **more)
    assert isinstance(ticket, str)
    fleet.wait(30_000)
    assert fleet.round()[0] == ticket
    return ticket
