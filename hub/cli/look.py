"""`hub nodes`, `hub pools`, `hub leases` and `hub autoscale`: show lists of nodes, pools and leases, and demand."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Annotated, Any

import typer

from hub.capacity.nodes.models import State
from hub.cli import output, tables
from hub.cli.answers import CommandAnswer, Listing, Row, Rows, check_one_of, check_realms
from hub.cli.child import Signals
from hub.cli.command import Work, command
from hub.cli.connection import PAGE, HubApi, members
from hub.cli.inputs import Usage
from hub.cli.options import AsJson, Limit
from hub.cli.times import since, when
from hub.cli.values import JOB, LABEL, NODE, RUN, SLOT

WATCH_S = 2.0


@command(every_realm=True)
def nodes(
    hub: HubApi,
    node: Annotated[str | None, NODE.argument("Show only this node, with its slots.")] = None,
    state: Annotated[State | None, typer.Option(help="Show only nodes in this state.")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Refresh every two seconds, until Ctrl-C.")] = False,
    limit: Limit = 1000,
    as_json: AsJson = False,
) -> Coroutine[Any, Any, CommandAnswer | None]:
    """Show the registered nodes."""
    check_one_of(("NODE", node), ("--state", state))
    check_realms(("NODE", node), ("--watch", watch or None))

    async def look() -> CommandAnswer:
        return await _one_node(hub, node) if node else await _NODES.of_realms(hub, partial(_all_nodes, limit, state))

    return _watch(look, as_json=as_json) if watch else look()


@command(every_realm=True)
def pools(
    hub: HubApi, label: Annotated[str | None, LABEL.argument("Show only this pool.")] = None, limit: Limit = 1000
) -> Work:
    """Show the pools: how many slots are free, lent and held back."""
    check_realms(("LABEL", label))
    return (
        _one(hub, _POOLS, "pools", label)
        if label
        else _POOLS.of_realms(hub, partial(_pages, "pools", _POOLS, limit, {}))
    )


@command()
def autoscale(
    hub: HubApi,
    label: Annotated[str | None, LABEL.argument("The label of the pool.")] = None,
    job: Annotated[str | None, JOB.option("Show the tasks of this job instead of a pool.", "--job")] = None,
    least: Annotated[
        int | None, typer.Option("--min", min=0, max=1_000_000, help="The lower bound of the desired number.")
    ] = None,
    most: Annotated[
        int | None, typer.Option("--max", min=0, max=1_000_000, help="The upper bound of the desired number.")
    ] = None,
    headroom: Annotated[
        int | None, typer.Option(min=0, max=1_000_000, help="The number to add to what is needed now.")
    ] = None,
) -> Work:
    """Show how many slots a pool should have: those that are lent, and those that waiting tickets need.

    With --job show how many tasks of a job are claimed, run or wait.
    """
    if (label is None) == (job is None):
        raise Usage("Say which: a LABEL, or --job JOB.")
    if least is not None and most is not None and least > most:
        raise Usage("--min is above --max.")
    bounds = {"min": least, "max": most, "headroom": headroom}
    of = ["jobs", job] if job is not None else [str(label)]
    return _autoscale(hub, of, bounds)


@command(every_realm=True)
def leases(
    hub: HubApi,
    slot: Annotated[str | None, SLOT.argument("Show only the lease of this slot.")] = None,
    label: Annotated[str | None, LABEL.option("Show only leases that were asked for under this label.")] = None,
    pool: Annotated[str | None, LABEL.option("Show only leases of this pool.")] = None,
    node: Annotated[str | None, NODE.option("Show only leases of this node.")] = None,
    run: Annotated[str | None, RUN.option("Show only leases of this run.")] = None,
    limit: Limit = 1000,
) -> Work:
    """Show the leases."""
    filters = {"label": label, "pool": pool, "node": node, "run": run}
    check_one_of(("SLOT", slot), *((f"--{name}", value) for name, value in filters.items()))
    check_realms(("SLOT", slot))
    if slot is not None:
        return _one(hub, _LEASES, "sessions", slot)
    return _LEASES.of_realms(hub, partial(_pages, "sessions", _LEASES, limit, filters))


async def _watch(look: Callable[[], Awaitable[CommandAnswer]], *, as_json: bool) -> None:
    """Print the answer of `look` every two seconds, until a signal."""
    task = asyncio.current_task()
    assert task is not None
    with Signals(lambda _: task.cancel()), suppress(asyncio.CancelledError):
        while True:
            answer = await look()
            if as_json:
                output.put(output.json_text(answer.document))
            else:
                tables.begin_picture(f"every {output.duration(WATCH_S)}, until Ctrl-C")
                answer.put(as_json=False)
            await asyncio.sleep(WATCH_S)


async def _one(hub: HubApi, of: Listing, path: str, name: str) -> CommandAnswer:
    return of.one(await hub.get(path, name))


async def _one_node(hub: HubApi, name: str) -> CommandAnswer:
    node = await hub.get("nodes", name)

    def show() -> None:
        tables.put_facts(_node_facts(node))
        if slots := [(slot.get("slotId"), slot.get("label"), slot.get("state")) for slot in node.get("slotList") or ()]:
            output.put("")
            tables.put_table(("SLOT", "POOL", "STATE"), slots)

    return CommandAnswer(node, show)


async def _autoscale(hub: HubApi, of: list[str], bounds: dict[str, int | None]) -> CommandAnswer:
    answer = await hub.get("autoscale", *of, **bounds)

    def show() -> None:
        tables.put_facts((_job_demand if "job" in answer else _demand)(answer))
        if hint := answer.get("hint"):
            output.note(str(hint))

    return CommandAnswer(answer, show)


async def _all_nodes(limit: int, state: str | None, hub: HubApi) -> Rows:
    nodes_by_id: dict[str, Row] = {}  # pages may repeat a node when nodes come or go meanwhile
    cursor: str | None = "0"
    total = 0
    while cursor is not None and len(nodes_by_id) < limit:
        page = await hub.get("nodes", detail=1, limit=min(PAGE, limit - len(nodes_by_id)), cursor=cursor, state=state)
        total, rows = members(page, "nodes")
        nodes_by_id |= {str(row.get("nodeId")): row for row in rows}
        cursor = page.get("next")
    return total, [nodes_by_id[name] for name in sorted(nodes_by_id)][:limit]


async def _pages(path: str, of: Listing, limit: int, filters: Mapping[str, str | None], hub: HubApi) -> Rows:
    so_far: list[Row] = []
    while True:
        page = await hub.get(path, limit=min(PAGE, limit - len(so_far)), offset=len(so_far), **filters)
        total, rows = members(page, of.noun)
        so_far += rows
        if not rows or len(so_far) >= min(total, limit):
            return total, so_far[:limit]


def _node_row(node: dict[str, Any]) -> Iterable[Any]:
    return (
        node.get("nodeId"), _state(node), node.get("slots"), node.get("lent"), since(node.get("sinceBeatMs")),
        output.pairs(node.get("labels")),
    )  # fmt: skip


def _node_facts(node: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    yield from zip(_NODES.columns, _node_row(node), strict=True)
    yield "LAST SEEN", when(node.get("lastSeen"))
    yield "CAPACITY", node.get("capacity")
    yield "APPS", ", ".join(map(str, node.get("apps") or ()))
    yield "ADDRESS", node.get("baseUrl")
    yield "ORDERS", ", ".join(map(_order, node.get("orders") or ()))


def _order(order: dict[str, Any]) -> str:
    """Return the text of an order, such as `rebuild within 300 s` or `recycle a-1 a-2`."""
    left, slots = order.get("secondsLeft"), order.get("slots") or ()
    parts = [str(order.get("order")), *(f"within {output.duration(left)}" for _ in range(left is not None)), *slots]
    return " ".join(map(str, parts))


def _state(node: dict[str, Any]) -> str:
    state, left = str(node.get("state")) + ", kept" * bool(node.get("kept")), node.get("deadlineSecondsLeft")
    service = str(node.get("service", "lending"))
    if service == "lending":
        return state
    return f"{state}, {service}" if left is None else f"{state}, {service} for {output.duration(left)}"


def _pool_row(pool: dict[str, Any]) -> Iterable[Any]:
    return (
        pool.get("label"), pool.get("total"), pool.get("available"), pool.get("borrowed"), pool.get("heldBack"),
        bool(pool.get("maintenanceActive")),
    )  # fmt: skip


def _demand(demand: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    least = "at least " if demand.get("truncated") else ""
    yield "POOL", demand.get("label")
    yield "LENT", demand.get("held")
    yield "WAITING", f"{least}{demand.get('waiting')}"
    yield "DESIRED", f"{least}{demand.get('desired')}"
    yield "FREE", demand.get("free")
    yield "HELD BACK", demand.get("heldBack")
    yield "MAINTENANCE", bool(demand.get("maintenanceActive"))


def _job_demand(demand: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    least = "at least " if demand.get("truncated") else ""
    yield "JOB", demand.get("job")
    yield "HELD", f"{least}{demand.get('held')}"
    yield "PENDING", demand.get("pending")
    yield "DESIRED", f"{least}{demand.get('desired')}"
    yield "PUT OFF", demand.get("putOff")
    yield "WORKERS", demand.get("workers")
    yield "RUN TIME", output.duration(demand.get("runSeconds"))


def _lease_row(lease: dict[str, Any]) -> Iterable[Any]:
    return (
        lease.get("slotId"), lease.get("pool"), lease.get("label"), lease.get("nodeId"),
        lease.get("runId"), when(lease.get("borrowedAt")), output.duration(lease.get("secondsLeft")),
    )  # fmt: skip


_NODES = Listing(
    "nodes", ("NODE", "STATE", "SLOTS", "LENT", "LAST BEAT", "LABELS"), _node_row, numbers=("SLOTS", "LENT")
)
_POOLS = Listing(
    "pools",
    ("POOL", "SLOTS", "FREE", "LENT", "HELD BACK", "MAINTENANCE"),
    _pool_row,
    numbers=("SLOTS", "FREE", "LENT", "HELD BACK"),
)
_LEASES = Listing(
    "leases",
    ("SLOT", "POOL", "ASKED FOR", "NODE", "RUN", "SINCE", "TIME LEFT"),
    _lease_row,
    numbers=("TIME LEFT",),
    expendable=("SINCE", "ASKED FOR", "NODE"),
)
