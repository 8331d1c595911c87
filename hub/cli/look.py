"""`hub nodes`, `hub pools`, `hub leases` and `hub autoscale`: show lists of nodes, pools and leases, and demand."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from typer import Option

from hub.capacity.nodes.models import State
from hub.cli import output, tables
from hub.cli.answers import Columns, CommandAnswer, Listing, Rows, duration_of, facts, refreshed, time_of
from hub.cli.command import Work, command
from hub.cli.connection import PAGE, HubApi, Row, members
from hub.cli.inputs import Usage, check_one_of, check_realms
from hub.cli.options import AS_JSON, JOB, LABEL, NODE, RUN, SLOT, list_limit

WATCH_S = 2.0


@command(every_realm=True)
def nodes(
    hub: HubApi,
    node: str | None = NODE.argument("Show only this node, with its slots.", default=None),
    state: State | None = Option(None, help="Show only nodes in this state."),
    watch: bool = Option(False, "--watch", help="Refresh every two seconds, until Ctrl-C."),
    limit: int = list_limit(1000),
    as_json: bool = AS_JSON,
) -> Coroutine[Any, Any, CommandAnswer | None]:
    """Show the registered nodes."""
    check_one_of(("NODE", node), ("--state", state))
    check_realms(("NODE", node), ("--watch", watch or None))

    async def look() -> CommandAnswer:
        return await _one_node(hub, node) if node else await _NODES.of_realms(hub, partial(_all_nodes, limit, state))

    return refreshed(look, WATCH_S, as_json=as_json) if watch else look()


@command(every_realm=True)
def pools(
    hub: HubApi,
    label: str | None = LABEL.argument("Show only this pool.", default=None),
    limit: int = list_limit(1000),
) -> Work:
    """Show the pools: how many slots are free, lent and held back."""
    check_realms(("LABEL", label))
    return _one_or_all(hub, _POOLS, "pools", label, limit, {})


@command(every_realm=True)
def leases(
    hub: HubApi,
    slot: str | None = SLOT.argument("Show only the lease of this slot.", default=None),
    label: str | None = LABEL.option("Show only leases that were asked for under this label."),
    pool: str | None = LABEL.option("Show only leases of this pool."),
    node: str | None = NODE.option("Show only leases of this node."),
    run: str | None = RUN.option("Show only leases of this run."),
    limit: int = list_limit(1000),
) -> Work:
    """Show the leases."""
    filters = {"label": label, "pool": pool, "node": node, "run": run}
    check_one_of(("SLOT", slot), *((f"--{name}", value) for name, value in filters.items()))
    check_realms(("SLOT", slot))
    return _one_or_all(hub, _LEASES, "sessions", slot, limit, filters)


@command()
def autoscale(
    hub: HubApi,
    label: str | None = LABEL.argument("The label of the pool.", default=None),
    job: str | None = JOB.option("Show the tasks of this job instead of a pool.", "--job"),
    least: int | None = Option(None, "--min", min=0, max=1_000_000, help="The lower bound of the desired number."),
    most: int | None = Option(None, "--max", min=0, max=1_000_000, help="The upper bound of the desired number."),
    headroom: int | None = Option(None, min=0, max=1_000_000, help="The number to add to what is needed now."),
) -> Work:
    """Show how many slots a pool should have: those that are lent, and those that waiting tickets need.

    With --job show how many tasks of a job are claimed, run or wait.
    """
    if (label is None) == (job is None):
        raise Usage("Say which: a LABEL, or --job JOB.")
    if least is not None and most is not None and least > most:
        raise Usage("--min is above --max.")
    bounds = {"min": least, "max": most, "headroom": headroom}
    return _autoscale(hub, ["jobs", job] if job is not None else [str(label)], bounds)


async def _one_or_all(
    hub: HubApi, listing: Listing, path: str, name: str | None, limit: int, filters: dict[str, str | None]
) -> CommandAnswer:
    if name is not None:
        return listing.one(await hub.get(path, name))
    return await listing.of_realms(hub, lambda realm: listing.ask(realm, limit, path, **filters))


async def _one_node(hub: HubApi, name: str) -> CommandAnswer:
    node = await hub.get("nodes", name)

    def show() -> None:
        facts(node, _NODE_FACTS).put(as_json=False)
        if slots := [(slot.get("slotId"), slot.get("label"), slot.get("state")) for slot in node.get("slotList") or ()]:
            output.put("")
            tables.put_table(("SLOT", "POOL", "STATE"), slots)

    return CommandAnswer(node, show)


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


async def _autoscale(hub: HubApi, path: list[str], bounds: dict[str, int | None]) -> CommandAnswer:
    answer = await hub.get("autoscale", *path, **bounds)

    def show() -> None:
        facts(answer, _JOB_DEMAND if "job" in answer else _POOL_DEMAND).put(as_json=False)
        if hint := answer.get("hint"):
            output.note(str(hint))

    return CommandAnswer(answer, show)


def _order(order: Row) -> str:
    """Return the text of an order, such as `rebuild within 300 s` or `recycle a-1 a-2`."""
    left, slots = order.get("secondsLeft"), order.get("slots") or ()
    bound = [] if left is None else [f"within {output.duration(left)}"]
    return " ".join(map(str, (order.get("order"), *bound, *slots)))


def _state(node: Row) -> str:
    state, left = str(node.get("state")) + ", kept" * bool(node.get("kept")), node.get("deadlineSecondsLeft")
    service = str(node.get("service", "lending"))
    if service == "lending":
        return state
    return f"{state}, {service}" if left is None else f"{state}, {service} for {output.duration(left)}"


def _at_least(member: str) -> Callable[[Row], str]:
    """Return a cell that shows a number, which is a lower bound when the hub has not counted to the end."""
    return lambda demand: f"{'at least ' if demand.get('truncated') else ''}{demand.get(member)}"


def _maintenance(row: Row) -> bool:
    return bool(row.get("maintenanceActive"))


_NODES = Listing(
    "nodes",
    {
        "NODE": "nodeId", "STATE": _state, "SLOTS": "slots", "LENT": "lent",
        "LAST BEAT": lambda node: output.since(node.get("sinceBeatMs")),
        "LABELS": lambda node: output.pairs(node.get("labels")),
    },
    numbers=("SLOTS", "LENT"),
)  # fmt: skip
_NODE_FACTS: Columns = {
    **_NODES.columns,
    "LAST SEEN": time_of("lastSeen"),
    "CAPACITY": "capacity",
    "APPS": lambda node: ", ".join(map(str, node.get("apps") or ())),
    "ADDRESS": "baseUrl",
    "ORDERS": lambda node: ", ".join(map(_order, node.get("orders") or ())),
}
_POOLS = Listing(
    "pools",
    {
        "POOL": "label", "SLOTS": "total", "FREE": "available", "LENT": "borrowed", "HELD BACK": "heldBack",
        "MAINTENANCE": _maintenance,
    },
    numbers=("SLOTS", "FREE", "LENT", "HELD BACK"),
)  # fmt: skip
_LEASES = Listing(
    "leases",
    {
        "SLOT": "slotId", "POOL": "pool", "ASKED FOR": "label", "NODE": "nodeId", "RUN": "runId",
        "SINCE": time_of("borrowedAt"), "TIME LEFT": duration_of("secondsLeft"),
    },
    numbers=("TIME LEFT",),
    expendable=("SINCE", "ASKED FOR", "NODE"),
)  # fmt: skip
_POOL_DEMAND: Columns = {
    "POOL": "label", "LENT": "held", "WAITING": _at_least("waiting"), "DESIRED": _at_least("desired"), "FREE": "free",
    "HELD BACK": "heldBack", "MAINTENANCE": _maintenance,
}  # fmt: skip
_JOB_DEMAND: Columns = {
    "JOB": "job", "HELD": _at_least("held"), "PENDING": "pending", "DESIRED": _at_least("desired"),
    "PUT OFF": "putOff", "WORKERS": "workers", "RUN TIME": duration_of("runSeconds"),
}  # fmt: skip
