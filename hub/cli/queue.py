"""`hub queue` and `hub caps`: show and cancel waiting tickets, show and set the caps of labels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from hub.cli import completing, output, tables
from hub.cli.admin import caller
from hub.cli.answers import CommandAnswer, Row, facts
from hub.cli.command import command
from hub.cli.connection import HubApi, members
from hub.cli.inputs import read_label
from hub.cli.options import ShowsByDefault
from hub.cli.times import when
from hub.cli.values import LABEL, TICKET

LABELS, TICKETS = 20, 1000  # in one call; a hub shows no more tickets in one answer
CAP_MAX = 999_999_999
ALL = "*"

_QUEUE_COLUMNS = ("LABEL", "POSITION", "TICKET", "RUN", "PRIORITY", "WAITING SINCE", "ESTIMATE")
_LESS_WANTED = ("WAITING SINCE", "PRIORITY", "RUN")
_CAP_COLUMNS = ("LABEL", "AT MOST", "SET BY", "LIVE", "WAITING")


queue_app = typer.Typer(cls=ShowsByDefault, help="Show the queue (`hub queue [LABEL]`), or cancel a ticket.")
caps_app = typer.Typer(cls=ShowsByDefault, help="Show how many leases of a label may be live at once, or change it.")


def read_cap_label(text: str) -> str:
    """Return a label, or `*` for all labels without a cap of their own."""
    return ALL if text.strip() == ALL else read_label(text)


CapLabel = Annotated[
    str,
    typer.Argument(
        parser=read_cap_label,
        metavar="LABEL",
        help="The label; '*' is every label without a cap of its own.",
        autocompletion=completing.pools,
    ),
]


Ticket = Annotated[str, TICKET.argument("The ticket, or the Idempotency-Key of the borrow.")]


@queue_app.command("ls")
@command()
async def list_queue(
    hub: HubApi,
    label: Annotated[str | None, LABEL.argument("Show only the queue of this label.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="Show at most N tickets.")] = 1000,
) -> CommandAnswer:
    """Show the waiting tickets by label, the next one at the top."""
    answer = await _queues(hub, label, limit)
    rows = [_row(queue, ticket) for queue in answer["labels"] for ticket in queue["tickets"]]
    waiting = sum(queue["waiting"] for queue in answer["labels"]) if label else answer["waiting"]

    def show() -> None:
        if rows:
            numbers = ("POSITION", "PRIORITY", "ESTIMATE")
            tables.put_table(_QUEUE_COLUMNS, rows, numbers=numbers, expendable=_LESS_WANTED)
        else:
            output.put("Nobody waits." if label is None else f"Nobody waits for {label}.")
        if waiting > len(rows):
            output.note(f"{len(rows)} of {waiting} tickets shown; --limit shows more.")
        if answer["away"]:
            output.note(f"{output.plural(answer['away'], 'position')} kept for callers that hung up and may come back.")

    return CommandAnswer(answer, show)


@queue_app.command("show")
@command()
async def show_ticket(hub: HubApi, ticket: Ticket) -> CommandAnswer:
    """Show a ticket: its position in the queue, or the slot that it was given."""
    answer = await hub.get("queue", ticket)
    return facts(answer, _ticket_facts(ticket, answer))


@queue_app.command("cancel")
@command("admin")
async def cancel(hub: HubApi, ticket: Ticket) -> CommandAnswer:
    """Cancel a waiting ticket; its caller is told at once."""
    return CommandAnswer(await hub.delete("queue", ticket), f"{ticket} is given up.")


@caps_app.command("ls")
@command("admin")
async def list_caps(hub: HubApi) -> CommandAnswer:
    """Show the caps, with the number of live leases and of waiting tickets."""
    caps = await hub.get("admin", "caps")
    rows = [_cap_row(row) for row in (*(caps.get("caps") or ()), _rest(caps, "all others"))]
    return CommandAnswer(caps, lambda: tables.put_table(_CAP_COLUMNS, rows, numbers=("AT MOST", "LIVE", "WAITING")))


@caps_app.command("show")
@command("admin")
async def show_cap(hub: HubApi, label: CapLabel) -> CommandAnswer:
    """Show the cap of a label, or the default cap where the label has none of its own."""
    caps = await hub.get("admin", "caps")
    cap = next((row for row in caps["caps"] if row["label"] == label), None) or _rest(caps, label)
    return facts(cap, zip(_CAP_COLUMNS, _cap_row(cap), strict=True))


@caps_app.command("set")
@command("admin")
async def set_cap(
    hub: HubApi,
    label: CapLabel,
    cap: Annotated[int, typer.Argument(min=0, max=CAP_MAX, metavar="N", help="The cap; 0 is no limit.")],
) -> CommandAnswer:
    """Set how many leases of a label may be live at once, for all hubs. A higher cap serves waiting tickets at once."""
    return await _set_cap(hub, label, cap)


@caps_app.command("clear")
@command("admin")
async def clear_cap(hub: HubApi, label: CapLabel) -> CommandAnswer:
    """Remove a cap: HUB_BORROW_CONCURRENCY_CAPS or HUB_BORROW_CONCURRENCY_DEFAULT hold again."""
    return await _set_cap(hub, label, None)


async def _queues(hub: HubApi, label: str | None, limit: int) -> dict[str, Any]:
    """Return the queues of all pages, or of one label, with at most `limit` tickets in all."""
    queues_so_far: list[Row] = []
    left = limit
    while True:
        page = await hub.get("queue", label=label, offset=len(queues_so_far), limit=LABELS, tickets=min(TICKETS, left))
        total, queues = members(page, "labels")
        for queue in queues:
            queue["tickets"] = queue["tickets"][:left]
            left -= len(queue["tickets"])
        queues_so_far += queues
        if left <= 0 or len(queues_so_far) >= total or not queues:
            return {**page, "labels": queues_so_far}


def _row(queue: dict[str, Any], ticket: dict[str, Any]) -> tuple[Any, ...]:
    return (
        queue["label"], ticket["position"], ticket["ticket"], ticket["runId"], ticket["priority"],
        when(ticket["since"]), output.duration(ticket["estimatedWaitSeconds"]),
    )  # fmt: skip


def _ticket_facts(ticket: str, answer: Row) -> Iterable[tuple[str, Any]]:
    """Return the facts of a ticket, without those that it has not: a waiting ticket has no slot, for example."""
    known = (
        ("TICKET", answer.get("ticket") or ticket), ("STATE", answer.get("state")), ("LABEL", answer.get("label")),
        ("SLOT", answer.get("slotId")), ("NODE", answer.get("nodeId")), ("POSITION", answer.get("position")),
        ("RUN", answer.get("runId")), ("PRIORITY", answer.get("priority")),
        ("WAITING SINCE", when(answer["since"]) if answer.get("since") else None),
        ("ESTIMATE", output.duration(answer.get("estimatedWaitSeconds")) if "estimatedWaitSeconds" in answer else None),
    )  # fmt: skip
    return [(name, value) for name, value in known if value is not None]


def _rest(caps: dict[str, Any], label: str) -> dict[str, Any]:
    """Return the default cap in the form of the cap of a label; `label` is the name to show."""
    return {"label": label, "cap": caps.get("default"), "source": caps.get("defaultSource")}


def _cap_row(row: dict[str, Any]) -> tuple[Any, ...]:
    return row.get("label"), row.get("cap") or "no limit", row.get("source"), row.get("inFlight"), row.get("waiting")


async def _set_cap(hub: HubApi, label: str, cap: int | None) -> CommandAnswer:
    answer = await hub.put("admin", "caps", label, body={"cap": cap, "by": caller()})
    name = "any label without a cap of its own" if label == ALL else label
    limit = f"At most {output.plural(answer.get('cap'), 'lease')}" if answer.get("cap") else "Any number of leases"
    now = "" if label == ALL else f"; {answer.get('inFlight')} live, {answer.get('waiting')} waiting"
    return CommandAnswer(answer, f"{limit} of {name} may be live at once ({answer.get('source')}){now}.")
