"""`hub nodes`, `hub pools`, `hub leases`: what there is, page after page."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Annotated, Any, NamedTuple

import typer

from hub.capacity.nodes.models import State
from hub.cli import completing, global_options, output, tables
from hub.cli.all_realms import each_realm, note_errors
from hub.cli.child import Signals
from hub.cli.connection import Address, HubApi, connect, looking
from hub.cli.inputs import Usage, read_id, read_label
from hub.cli.job_inputs import read_full_name
from hub.cli.options import AsJson, Limit, Secret, Url
from hub.cli.times import since, when
from hub.errors import HubError

PAGE = 500
WATCH_S = 2.0


class _Listing(NamedTuple):
    """How a list is shown."""

    noun: str
    columns: tuple[str, ...]
    row: Callable[[dict[str, Any]], Iterable[Any]]
    numbers: tuple[str, ...]
    expendable: tuple[str, ...] = ()


_NODE_COLUMNS = ("NODE", "STATE", "SLOTS", "LENT", "LAST BEAT", "LABELS")
_POOL_COLUMNS = ("POOL", "SLOTS", "FREE", "LENT", "HELD BACK", "MAINTENANCE")
_LEASE_COLUMNS = ("SLOT", "POOL", "ASKED FOR", "NODE", "RUN", "SINCE", "TIME LEFT")
_LESS_WANTED = ("SINCE", "ASKED FOR", "NODE")


def nodes(
    node: Annotated[
        str | None,
        typer.Argument(
            parser=read_id, metavar="NODE", help="Only this one, with its slots.", autocompletion=completing.nodes
        ),
    ] = None,
    state: Annotated[State | None, typer.Option(help="Only nodes in this state.")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Show them again every two seconds, until Ctrl-C.")] = False,
    limit: Limit = 1000,
    as_json: AsJson = False,
    url: Url = None,
    secret: Secret = None,
) -> int:
    """Show the registered nodes."""
    _one_of(("NODE", node), ("--state", state))
    if global_options.realm() == global_options.ALL:
        _lists_only(("NODE", node), ("--watch", watch or None))
        at = looking(url, secret, of_all=True)
        return asyncio.run(_of_all(at, as_json, _NODES, lambda realm: _all_nodes(realm, limit, state)))
    look = _nodes(looking(url, secret), as_json, limit=limit, state=state, node=node, watch=watch)
    asyncio.run(look)
    return 0


def pools(
    label: Annotated[
        str | None,
        typer.Argument(parser=read_label, metavar="LABEL", help="Only this one.", autocompletion=completing.pools),
    ] = None,
    limit: Limit = 1000,
    as_json: AsJson = False,
    url: Url = None,
    secret: Secret = None,
) -> int:
    """Show the pools: how many slots are free, lent and held back."""
    if global_options.realm() == global_options.ALL:
        _lists_only(("LABEL", label))
        at = looking(url, secret, of_all=True)
        return asyncio.run(_of_all(at, as_json, _POOLS, lambda realm: _pages(realm, "pools", "pools", limit, {})))
    asyncio.run(_pools(looking(url, secret), as_json, limit=limit, label=label))
    return 0


def autoscale(
    label: Annotated[
        str | None,
        typer.Argument(parser=read_label, metavar="[LABEL]", help="The pool.", autocompletion=completing.pools),
    ] = None,
    job: Annotated[
        str | None,
        typer.Option(
            "--job",
            parser=read_full_name,
            metavar="JOB",
            help="Of this job, instead of a pool.",
            autocompletion=completing.jobs,
        ),
    ] = None,
    least: Annotated[int | None, typer.Option("--min", min=0, max=1_000_000, help="Want at least so many.")] = None,
    most: Annotated[int | None, typer.Option("--max", min=0, max=1_000_000, help="Want at most so many.")] = None,
    headroom: Annotated[
        int | None, typer.Option(min=0, max=1_000_000, help="Want so many more than are needed now.")
    ] = None,
    as_json: AsJson = False,
    url: Url = None,
    secret: Secret = None,
) -> None:
    """Show how many slots a pool should have: what is lent, and what those who wait for it need.

    With --job how many tasks of a job there are to work on: what is claimed or runs, and what waits.
    """
    if (label is None) == (job is None):
        raise Usage("Say which: a LABEL, or --job JOB.")
    if least is not None and most is not None and least > most:
        raise Usage("--min is above --max.")
    bounds = {"min": least, "max": most, "headroom": headroom}
    of = ["jobs", job] if job is not None else [str(label)]
    asyncio.run(_autoscale(looking(url, secret), of, bounds, as_json))


def leases(
    slot: Annotated[
        str | None,
        typer.Argument(parser=read_id, metavar="SLOT", help="Only this one.", autocompletion=completing.slots),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(parser=read_label, metavar="LABEL", help="Asked for as this.", autocompletion=completing.pools),
    ] = None,
    pool: Annotated[
        str | None,
        typer.Option(parser=read_label, metavar="LABEL", help="Served by this pool.", autocompletion=completing.pools),
    ] = None,
    node: Annotated[
        str | None,
        typer.Option(parser=read_id, metavar="NODE", help="On this node.", autocompletion=completing.nodes),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(parser=read_id, metavar="RUN", help="Of this run.", autocompletion=completing.runs),
    ] = None,
    limit: Limit = 1000,
    as_json: AsJson = False,
    url: Url = None,
    secret: Secret = None,
) -> int:
    """Show what is lent."""
    filters = {"label": label, "pool": pool, "node": node, "run": run}
    _one_of(("SLOT", slot), *((f"--{name}", value) for name, value in filters.items()))
    where = {name: value for name, value in filters.items() if value is not None}
    if global_options.realm() == global_options.ALL:
        _lists_only(("SLOT", slot))
        at = looking(url, secret, of_all=True)
        return asyncio.run(
            _of_all(at, as_json, _LEASES, lambda realm: _pages(realm, "sessions", "leases", limit, where))
        )
    asyncio.run(_leases(looking(url, secret), as_json, limit=limit, where=where, slot=slot))
    return 0


def _lists_only(*given: tuple[str, object]) -> None:
    if names := [name for name, value in given if value is not None]:
        raise Usage(f"--realm '*' lists what all realms have: leave {' and '.join(names)} out, or name the realm.")


def _one_of(*given: tuple[str, object]) -> None:
    names = [name for name, value in given if value is not None]
    if len(names) > 1:
        raise Usage(f"{' and '.join(names)} exclude each other.")


async def _nodes(at: Address, as_json: bool, *, limit: int, state: str | None, node: str | None, watch: bool) -> None:
    """Show the registered nodes, or one with its slots, once or again and again."""
    async with connect(at) as hub:
        if not watch:
            _show_nodes(await _look_at_nodes(hub, limit, state, node), as_json, one=node is not None)
            return
        task = asyncio.current_task()
        assert task is not None
        with Signals(lambda _: task.cancel()), suppress(asyncio.CancelledError):
            while True:
                found = await _look_at_nodes(hub, limit, state, node)
                if as_json:
                    output.put(output.json_text(found))
                else:
                    tables.begin_picture(f"every {output.duration(WATCH_S)}, until Ctrl-C")
                    _show_nodes(found, as_json, one=node is not None)
                await asyncio.sleep(WATCH_S)


async def _look_at_nodes(hub: HubApi, limit: int, state: str | None, node: str | None) -> dict[str, Any]:
    if node is not None:
        return await hub.get("nodes", node)
    total, rows = await _all_nodes(hub, limit, state)
    return {"total": total, "nodes": rows}


def _show_nodes(found: dict[str, Any], as_json: bool, *, one: bool) -> None:
    if one:
        _show_one(found, as_json, _node_facts, ("SLOT", "POOL", "STATE"), _node_slots)
    else:
        _show(as_json, found["total"], found["nodes"], _NODES)


async def _pools(at: Address, as_json: bool, *, limit: int, label: str | None) -> None:
    """Show the pools with what is free and lent, or one of them."""
    async with connect(at) as hub:
        if label is not None:
            found = await hub.get("pools", label)
            _show_one(found, as_json, lambda pool: zip(_POOL_COLUMNS, _pool_row(pool), strict=True))
            return
        total, rows = await _pages(hub, "pools", "pools", limit, {})
    _show(as_json, total, rows, _POOLS)


async def _autoscale(at: Address, of: list[str], bounds: dict[str, int | None], as_json: bool) -> None:
    """Show how many slots a pool should have, or how many tasks of a job there are, and why."""
    async with connect(at) as hub:
        found = await hub.get("autoscale", *of, **bounds)
    _show_one(found, as_json, _job_demand if "job" in found else _demand)
    if found.get("hint") and not as_json:
        output.note(f"{found['hint']}")


async def _leases(at: Address, as_json: bool, *, limit: int, where: dict[str, str], slot: str | None) -> None:
    """Show what is lent, all of it or by one filter, or the lease of one slot."""
    async with connect(at) as hub:
        if slot is not None:
            found = await hub.get("sessions", slot)
            _show_one(found, as_json, lambda lease: zip(_LEASE_COLUMNS, _lease_row(lease), strict=True))
            return
        total, rows = await _pages(hub, "sessions", "leases", limit, where)
    _show(as_json, total, rows, _LEASES)


async def _of_all(
    at: Address, as_json: bool, of: _Listing, look: Callable[[HubApi], Awaitable[tuple[int, list[dict[str, Any]]]]]
) -> int:
    """Show a list of every realm, one below the other."""
    async with connect(at) as hub:
        parts = await each_realm(hub, look)
    if as_json:
        lists = [dict(zip(("total", of.noun), part.found or (None, []), strict=True)) for part in parts]
        output.put_json({"realms": [part.facts() | found for part, found in zip(parts, lists, strict=True)]})
    else:
        rows = [(part.realm, *of.row(each)) for part in parts if part.found for each in part.found[1]]
        tables.put_table(("REALM", *of.columns), rows, numbers=of.numbers, expendable=of.expendable)
        for part in parts:
            if part.found and part.found[0] > len(part.found[1]):
                output.note(
                    f"{len(part.found[1])} of {part.found[0]} {of.noun} of {part.realm} shown; --limit shows more."
                )
    return note_errors(parts)


async def _all_nodes(hub: HubApi, limit: int, state: str | None) -> tuple[int, list[dict[str, Any]]]:
    found: dict[str, dict[str, Any]] = {}  # a cursor may show a node twice when the fleet changes meanwhile
    cursor: str | None = "0"
    total = 0
    while cursor is not None and len(found) < limit:
        page = await hub.get("nodes", detail=1, limit=min(PAGE, limit - len(found)), cursor=cursor, state=state)
        total, rows = members(page, "nodes")
        found |= {str(row.get("nodeId")): row for row in rows}
        cursor = page.get("next")
    return total, [found[name] for name in sorted(found)][:limit]


async def _pages(
    hub: HubApi, path: str, noun: str, limit: int, where: dict[str, str]
) -> tuple[int, list[dict[str, Any]]]:
    found: list[dict[str, Any]] = []
    while True:
        page = await hub.get(path, limit=min(PAGE, limit - len(found)), offset=len(found), **where)
        total, rows = members(page, noun)
        found += rows
        if not rows or len(found) >= min(total, limit):
            return total, found[:limit]


def members(page: dict[str, Any], noun: str) -> tuple[int, list[dict[str, Any]]]:
    """(how many there are, those on this page); a `HubError` when this is no page of them."""
    try:
        return int(page["total"]), list(page[noun])
    except (KeyError, TypeError, ValueError):
        raise HubError(f"What answers at this address is no capacity hub: it shows no {noun}.") from None


def _show(as_json: bool, total: int, rows: list[dict[str, Any]], of: _Listing) -> None:
    if as_json:
        output.put_json({"total": total, of.noun: rows})
    elif rows:
        said = [tuple(of.row(each)) for each in rows]
        tables.put_table(of.columns, said, numbers=of.numbers, expendable=of.expendable)
    else:
        output.put(f"No {of.noun}.")
    if total > len(rows) and rows:
        output.note(f"{len(rows)} of {total} {of.noun} shown; --limit shows more.")


def _show_one(
    found: dict[str, Any],
    as_json: bool,
    facts: Callable[[dict[str, Any]], Iterable[tuple[str, Any]]],
    columns: tuple[str, ...] = (),
    rows: Callable[[dict[str, Any]], list[tuple[Any, ...]]] | None = None,
) -> None:
    if as_json:
        output.put_json(found)
        return
    tables.put_facts(facts(found))
    if rows is not None and (listed := rows(found)):
        output.put("")
        tables.put_table(columns, listed)


def _node_row(node: dict[str, Any]) -> Iterable[Any]:
    return (
        node.get("nodeId"), _state(node), node.get("slots"), node.get("lent"), since(node.get("sinceBeatMs")),
        output.pairs(node.get("labels")),
    )  # fmt: skip


def _node_facts(node: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    yield from zip(_NODE_COLUMNS, _node_row(node), strict=True)
    yield "LAST SEEN", when(node.get("lastSeen"))
    yield "CAPACITY", node.get("capacity")
    yield "APPS", ", ".join(map(str, node.get("apps") or ()))
    yield "ADDRESS", node.get("baseUrl")
    yield "ORDERS", ", ".join(map(_order, node.get("orders") or ()))


def _order(order: dict[str, Any]) -> str:
    """`rebuild within 300 s`, `recycle a-1 a-2`."""
    left, slots = order.get("secondsLeft"), order.get("slots") or ()
    said = [str(order.get("order")), *(f"within {output.duration(left)}" for _ in range(left is not None)), *slots]
    return " ".join(map(str, said))


def _node_slots(node: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [(slot.get("slotId"), slot.get("label"), slot.get("state")) for slot in node.get("slotList") or ()]


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


def _demand(found: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    least = "at least " if found.get("truncated") else ""
    yield "POOL", found.get("label")
    yield "LENT", found.get("held")
    yield "WAITING", f"{least}{found.get('waiting')}"
    yield "DESIRED", f"{least}{found.get('desired')}"
    yield "FREE", found.get("free")
    yield "HELD BACK", found.get("heldBack")
    yield "MAINTENANCE", bool(found.get("maintenanceActive"))


def _job_demand(found: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    least = "at least " if found.get("truncated") else ""
    yield "JOB", found.get("job")
    yield "HELD", f"{least}{found.get('held')}"
    yield "PENDING", found.get("pending")
    yield "DESIRED", f"{least}{found.get('desired')}"
    yield "PUT OFF", found.get("putOff")
    yield "WORKERS", found.get("workers")
    yield "RUN TIME", output.duration(found.get("runSeconds"))


def _lease_row(lease: dict[str, Any]) -> Iterable[Any]:
    return (
        lease.get("slotId"), lease.get("pool"), lease.get("label"), lease.get("nodeId"),
        lease.get("runId"), when(lease.get("borrowedAt")), output.duration(lease.get("secondsLeft")),
    )  # fmt: skip


_NODES = _Listing("nodes", _NODE_COLUMNS, _node_row, ("SLOTS", "LENT"))
_POOLS = _Listing("pools", _POOL_COLUMNS, _pool_row, ("SLOTS", "FREE", "LENT", "HELD BACK"))
_LEASES = _Listing("leases", _LEASE_COLUMNS, _lease_row, ("TIME LEFT",), _LESS_WANTED)
