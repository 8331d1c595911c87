"""`hub nodes`, `slot ls`, `pools`, `leases`, `autoscale`: show lists of nodes, slots, pools and leases, and demand."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

from typer import Option

from hub.capacity.nodes.models import State
from hub.cli import output, tables
from hub.cli.answers import (
    Columns,
    CommandAnswer,
    Listing,
    Rows,
    because,
    cells,
    duration_of,
    ends_by,
    facts,
    held,
    holder_name,
    json_of,
    refreshed,
    run_name,
    time_of,
    warm,
)
from hub.cli.answers import attributes as attributes_of
from hub.cli.choosing import EXPRESSION
from hub.cli.command import Work, command
from hub.cli.connection import PAGE, HubApi, Row, members
from hub.cli.inputs import Usage, check_one_of, check_realms
from hub.cli.options import AS_JSON, JOB, LABEL, NODE, RUN, SLOT, STEM, list_limit
from hub.errors import NotFound

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


@command()
async def slots(
    hub: HubApi,
    unwell: bool = Option(False, "--held", help="Show only slots that a node or an operator holds as unwell."),
    limit: int = list_limit(1000),
) -> CommandAnswer:
    """Show the slots of all nodes, with the reason of each that is held."""
    _, nodes = await _all_nodes(sys.maxsize, None, hub)
    found: list[Row] = []
    for node in nodes:
        with suppress(NotFound):  # it may have left since it was listed
            offered = (await hub.get("nodes", str(node["nodeId"])))["slotList"]
            found += [{**slot, "nodeId": node["nodeId"]} for slot in offered if slot.get("held") or not unwell]
    return _SLOTS.answer((len(found), found[:limit]))


@command(every_realm=True)
def pools(
    hub: HubApi,
    label: str | None = LABEL.argument("Show only this pool.", default=None),
    limit: int = list_limit(1000),
) -> Work:
    """Show the pools: how many slots are free, lent and held back."""
    check_realms(("LABEL", label))
    return _one_or_all(hub, _POOLS, "pools", label, limit, {})


@command()
async def attributes(hub: HubApi, label: str = STEM.argument("The label; its first segment will do.")) -> CommandAnswer:
    """Show the attributes of the slots that may serve a label, with their values, and how many slots have each.

    They are what --where of `hub borrow` compares; of a list, each text in it is a value.
    """
    answer = await hub.get("pools", label, "attributes")
    found = answer["attributes"]
    rows = [{**each, **value} for each in found for value in each["values"] or [{"value": None, "free": None}]]
    notes = [f"{each['more']} more values of {each['name']} are not shown." for each in found if each.get("more")]
    notes += ["More pools may serve it than are counted here."] if answer.get("truncated") else []
    notes += [f"{answer['hint']}."] if answer.get("hint") else []

    def show() -> None:
        if rows:
            _ATTRIBUTES.put(rows)
        else:
            output.put(f"No slot of {label} has attributes.")

    return CommandAnswer(answer, show, notes)


@command(every_realm=True)
def leases(
    hub: HubApi,
    slot: str | None = SLOT.argument("Show only the lease of this slot.", default=None),
    label: str | None = STEM.option("Show only leases that were asked for under this label."),
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


@command("figures")
def autoscale(
    hub: HubApi,
    label: str | None = LABEL.argument("The label of the pool.", default=None),
    where: str | None = EXPRESSION.option("Count only slots that this suits, as 'vram >= 40', and who waits for them."),
    job: str | None = JOB.option("Show the tasks of this job instead of a pool.", "--job"),
    least: int | None = Option(None, "--min", min=0, max=1_000_000, help="The lower bound of the desired number."),
    most: int | None = Option(None, "--max", min=0, max=1_000_000, help="The upper bound of the desired number."),
    headroom: int | None = Option(
        None, min=0, max=1_000_000, help="The number to add to what is needed now, so that some are to spare."
    ),
) -> Work:
    """Show how many slots a pool should have: those that are lent, and those that waiting tickets need.

    With --job show how many tasks of a job are claimed, run or wait.
    """
    if (label is None) == (job is None):
        raise Usage("Say which: a LABEL, or --job JOB.")
    check_one_of(("--where", where), ("--job", job))
    if least is not None and most is not None and least > most:
        raise Usage("--min is above --max.")
    bounds = {"min": least, "max": most, "headroom": headroom, "where": where}
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
        if slots := node.get("slotList"):
            output.put("")
            tables.put_table(tuple(_OF_NODE), [cells(_OF_NODE, slot) for slot in slots], rare=("ATTRIBUTES", "WARM"))

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


async def _autoscale(hub: HubApi, path: list[str], bounds: dict[str, Any]) -> CommandAnswer:
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
        "NODE": "nodeId", "STATE": _state, "SLOTS": "slots", "LENT": "lent", "HELD": lambda node: node.get("held", 0),
        "LAST BEAT": lambda node: output.since(node.get("sinceBeatMs")),
        "LABELS": lambda node: output.pairs(node.get("labels")),
    },
    numbers=("SLOTS", "LENT", "HELD"),
)  # fmt: skip
_NODE_FACTS: Columns = {
    **_NODES.columns,
    "LAST SEEN": time_of("lastSeen"),
    "CAPACITY": "capacity",
    "APPS": lambda node: ", ".join(map(str, node.get("apps") or ())),
    "ADDRESS": "baseUrl",
    "ORDERS": lambda node: ", ".join(map(_order, node.get("orders") or ())),
}
_DESCRIBED: Columns = {"ATTRIBUTES": attributes_of, "WARM": warm}
_OF_NODE: Columns = {"SLOT": "slotId", "POOL": "label", "STATE": "state", "HELD": held, **_DESCRIBED}
_SLOTS = Listing(
    "slots",
    {"SLOT": "slotId", "POOL": "label", "NODE": "nodeId", "STATE": "state", "HELD": held, **_DESCRIBED},
    expendable=("WARM", "NODE", "ATTRIBUTES"),
    rare=tuple(_DESCRIBED),
)
_ATTRIBUTES = Listing(
    "attributes",
    {
        "NAME": "name", "TYPE": "type", "VALUE": json_of("value"),
        "SLOTS": "slots", "FREE": "free",
    },
    numbers=("SLOTS", "FREE"),
)  # fmt: skip
_POOLS = Listing(
    "pools",
    {
        "POOL": "label", "SLOTS": "total", "FREE": "available", "LENT": "borrowed", "HELD BACK": "heldBack",
        "BECAUSE": because, "MAINTENANCE": _maintenance,
    },
    numbers=("SLOTS", "FREE", "LENT", "HELD BACK"),
    expendable=("BECAUSE",),
)  # fmt: skip
_LEASES = Listing(
    "leases",
    {
        "SLOT": "slotId", "POOL": "pool", "ASKED FOR": "label", "NODE": "nodeId", "HOLDER": holder_name,
        "RUN": run_name, "SINCE": time_of("borrowedAt"), "TIME LEFT": duration_of("secondsLeft"),
        "RULE ENDS IT": ends_by, "UNWELL": held, "BUNDLE": "bundle",
    },
    numbers=("TIME LEFT",),
    expendable=("SINCE", "ASKED FOR", "NODE", "RUN"),
    rare=("BUNDLE",),
)  # fmt: skip
_POOL_DEMAND: Columns = {
    "POOL": "label", "LENT": "held", "WAITING": _at_least("waiting"), "DESIRED": _at_least("desired"), "FREE": "free",
    "HELD BACK": "heldBack", "BECAUSE": because, "MAINTENANCE": _maintenance,
}  # fmt: skip
_JOB_DEMAND: Columns = {
    "JOB": "job", "HELD": _at_least("held"), "PENDING": "pending", "DESIRED": _at_least("desired"),
    "PUT OFF": "putOff", "WORKERS": "workers", "RUN TIME": duration_of("runSeconds"),
}  # fmt: skip
