"""`hub queue` and `hub caps`: who waits, giving a place up, and how much of a label may be lent at once."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import typer

from hub.cli import completing, output, tables
from hub.cli.admin import caller
from hub.cli.connection import Address, HubApi, Role, address, connect, plain_logs
from hub.cli.inputs import read_id, read_label
from hub.cli.look import members
from hub.cli.options import AsJson, Secret, ShowsByDefault, Url
from hub.cli.times import when

LABELS, TICKETS = 20, 1000  # asked for at a time: as many tickets as a hub shows in one answer
CAP_MAX = 999_999_999
ALL = "*"

_QUEUE_COLUMNS = ("LABEL", "POSITION", "TICKET", "RUN", "PRIORITY", "WAITING SINCE", "ESTIMATE")
_LESS_WANTED = ("WAITING SINCE", "PRIORITY", "RUN")
_CAP_COLUMNS = ("LABEL", "AT MOST", "SET BY", "LIVE", "WAITING")


queue_app = typer.Typer(cls=ShowsByDefault, help="Show who waits (`hub queue [LABEL]`), or give a place up.")
caps_app = typer.Typer(cls=ShowsByDefault, help="Show how many leases of a label may be live at once, or change it.")


def read_cap_label(text: str) -> str:
    """A label, or `*` for all without a cap of their own."""
    return ALL if text.strip() == ALL else read_label(text)


CapLabel = Annotated[
    str,
    typer.Argument(
        parser=read_cap_label,
        metavar="LABEL",
        help="The label; '*': all without a cap of their own.",
        autocompletion=completing.pools,
    ),
]


Ticket = Annotated[
    str,
    typer.Argument(
        parser=read_id,
        metavar="TICKET",
        help="The ticket, or the Idempotency-Key of the borrow.",
        autocompletion=completing.tickets,
    ),
]


@queue_app.command("ls")
def list_queue(
    label: Annotated[
        str | None,
        typer.Argument(parser=read_label, metavar="LABEL", help="Only this one.", autocompletion=completing.pools),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="Show at most so many who wait.")] = 1000,
    as_json: AsJson = False,
    url: Url = None,
    secret: Secret = None,
) -> None:
    """Show who waits, by label, those whose turn is next at the top."""
    asyncio.run(_queue(_asking(url, secret, "look"), label, limit, as_json))


@queue_app.command("show")
def show_ticket(ticket: Ticket, as_json: AsJson = False, url: Url = None, secret: Secret = None) -> None:
    """Show what has become of a borrow: its place in the queue, or the slot it was given."""
    asyncio.run(_ticket(_asking(url, secret, "look"), ticket, as_json))


@queue_app.command("cancel")
def cancel(
    ticket: Ticket,
    as_json: AsJson = False,
    url: Url = None,
    secret: Secret = None,
) -> None:
    """Give up a borrow that waits; its caller is told at once."""
    asyncio.run(_cancel(_asking(url, secret, "admin"), ticket, as_json))


@caps_app.command("ls")
def list_caps(as_json: AsJson = False, url: Url = None, secret: Secret = None) -> None:
    """Show the caps, with what is live and who waits."""
    asyncio.run(_caps(_asking(url, secret, "admin"), as_json))


@caps_app.command("show")
def show_cap(label: CapLabel, as_json: AsJson = False, url: Url = None, secret: Secret = None) -> None:
    """Show the cap of a label; where it has none of its own, that of all others."""
    asyncio.run(_cap(_asking(url, secret, "admin"), label, as_json))


@caps_app.command("set")
def set_cap(
    label: CapLabel,
    cap: Annotated[int, typer.Argument(min=0, max=CAP_MAX, metavar="N", help="At most so many; 0: no limit.")],
    as_json: AsJson = False,
    url: Url = None,
    secret: Secret = None,
) -> None:
    """Let at most N leases of a label be live at once, at all hubs. Waiters that a higher cap lets in are served."""
    asyncio.run(_set_cap(_asking(url, secret, "admin"), label, cap, as_json))


@caps_app.command("clear")
def clear_cap(label: CapLabel, as_json: AsJson = False, url: Url = None, secret: Secret = None) -> None:
    """Go back to the cap of HUB_BORROW_CONCURRENCY_CAPS or HUB_BORROW_CONCURRENCY_DEFAULT."""
    asyncio.run(_set_cap(_asking(url, secret, "admin"), label, None, as_json))


def _asking(url: str | None, secret: str | None, role: Role) -> Address:
    plain_logs()
    return address(url, secret, role)


async def _queue(at: Address, label: str | None, limit: int, as_json: bool) -> None:
    async with connect(at) as hub:
        found = await _queues(hub, label, limit)
    if as_json:
        output.put_json(found)
        return
    rows = [_row(queue, ticket) for queue in found["labels"] for ticket in queue["tickets"]]
    if rows:
        tables.put_table(_QUEUE_COLUMNS, rows, numbers=("POSITION", "PRIORITY", "ESTIMATE"), expendable=_LESS_WANTED)
    else:
        output.put("Nobody waits." if label is None else f"Nobody waits for {label}.")
    waiting = sum(queue["waiting"] for queue in found["labels"]) if label else found["waiting"]
    if waiting > len(rows):
        output.note(f"{len(rows)} of {waiting} who wait shown; --limit shows more.")
    if found["away"]:
        output.note(f"{output.plural(found['away'], 'place')} kept for callers who are gone and may come back.")


async def _queues(hub: HubApi, label: str | None, limit: int) -> dict[str, Any]:
    """What the hub shows of the queues, with at most so many tickets over all pages."""
    found: list[dict[str, Any]] = []
    left = limit
    while True:
        page = await hub.get("queue", label=label, offset=len(found), limit=LABELS, tickets=min(TICKETS, left))
        total, queues = members(page, "labels")
        for queue in queues:
            queue["tickets"] = queue["tickets"][:left]
            left -= len(queue["tickets"])
        found += queues
        if left <= 0 or len(found) >= total or not queues:
            return {**page, "labels": found}


def _row(queue: dict[str, Any], ticket: dict[str, Any]) -> tuple[Any, ...]:
    return (
        queue["label"], ticket["position"], ticket["ticket"], ticket["runId"], ticket["priority"],
        when(ticket["since"]), output.duration(ticket["estimatedWaitSeconds"]),
    )  # fmt: skip


async def _ticket(at: Address, ticket: str, as_json: bool) -> None:
    async with connect(at) as hub:
        found = await hub.get("queue", ticket)
    if as_json:
        output.put_json(found)
        return
    # What is waited for has a place, what was given has a slot.
    facts = (
        ("TICKET", found.get("ticket") or ticket), ("STATE", found.get("state")), ("LABEL", found.get("label")),
        ("SLOT", found.get("slotId")), ("NODE", found.get("nodeId")), ("POSITION", found.get("position")),
        ("RUN", found.get("runId")), ("PRIORITY", found.get("priority")),
        ("WAITING SINCE", when(found["since"]) if found.get("since") else None),
        ("ESTIMATE", output.duration(found.get("estimatedWaitSeconds")) if "estimatedWaitSeconds" in found else None),
    )  # fmt: skip
    tables.put_facts((name, value) for name, value in facts if value is not None)


async def _cancel(at: Address, ticket: str, as_json: bool) -> None:
    async with connect(at) as hub:
        answer = await hub.delete("queue", ticket)
    if as_json:
        output.put_json(answer)
    else:
        output.put(f"{ticket} is given up.")


async def _caps(at: Address, as_json: bool) -> None:
    async with connect(at) as hub:
        found = await hub.get("admin", "caps")
    if as_json:
        output.put_json(found)
        return
    rows = [_cap_row(row) for row in (*(found.get("caps") or ()), _rest(found, "all others"))]
    tables.put_table(_CAP_COLUMNS, rows, numbers=("AT MOST", "LIVE", "WAITING"))


async def _cap(at: Address, label: str, as_json: bool) -> None:
    async with connect(at) as hub:
        found = await hub.get("admin", "caps")
    row = next((row for row in found["caps"] if row["label"] == label), None) or _rest(found, label)
    if as_json:
        output.put_json(row)
    else:
        tables.put_facts(zip(_CAP_COLUMNS, _cap_row(row), strict=True))


def _rest(found: dict[str, Any], label: str) -> dict[str, Any]:
    """The cap of labels without one of their own."""
    return {"label": label, "cap": found.get("default"), "source": found.get("defaultSource")}


def _cap_row(row: dict[str, Any]) -> tuple[Any, ...]:
    return row.get("label"), row.get("cap") or "no limit", row.get("source"), row.get("inFlight"), row.get("waiting")


async def _set_cap(at: Address, label: str, cap: int | None, as_json: bool) -> None:
    async with connect(at) as hub:
        answer = await hub.put("admin", "caps", label, body={"cap": cap, "by": caller()})
    if as_json:
        output.put_json(answer)
        return
    name = "any label without a cap of its own" if label == ALL else label
    limit = f"At most {output.plural(answer.get('cap'), 'lease')}" if answer.get("cap") else "Any number of leases"
    now = "" if label == ALL else f"; {answer.get('inFlight')} live, {answer.get('waiting')} waiting"
    output.put(f"{limit} of {name} may be live at once ({answer.get('source')}){now}.")
