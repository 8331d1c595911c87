"""`hub queue` and `hub caps`: show and cancel waiting tickets, show and set the caps of labels."""

from __future__ import annotations

from typer import Argument, Option

from hub.cli import completing, output
from hub.cli.answers import (
    Columns,
    CommandAnswer,
    Listing,
    choices,
    duration_of,
    facts,
    holder_name,
    parts,
    run_name,
    set_aside,
    time_of,
)
from hub.cli.command import Group
from hub.cli.connection import HubApi, Row, members
from hub.cli.environment import caller
from hub.cli.inputs import read_stem
from hub.cli.options import STEM, TEXT, TICKET, Input, ShowsByDefault, list_limit

LABELS, TICKETS = 20, 1000  # in one call; a hub shows no more tickets in one answer
CAP_MAX = 999_999_999
ALL = "*"

queue_app = Group(cls=ShowsByDefault, help="Show the queue (`hub queue [LABEL]`), or cancel a ticket.")
caps_app = Group(cls=ShowsByDefault, help="Show how many leases of a label may be live at once, or change it.")


def read_cap_label(text: str) -> str:
    """Return a label, or `*` for all labels without a cap of their own."""
    return ALL if text.strip() == ALL else read_stem(text)


_CAP_LABEL = Input("LABEL", read_cap_label, completing.pools).argument("The label; '*' is every label without a cap.")
_SERVED = Option(False, "--served", help="Count every lease that the pool LABEL, or one below it, serves.")
_TICKET = TICKET.argument("The ticket, or the Idempotency-Key of the borrow.")


@queue_app.add("ls")
async def list_queue(
    hub: HubApi,
    label: str | None = STEM.argument("Show only the queue of this label.", default=None),
    limit: int = list_limit(1000),
) -> CommandAnswer:
    """Show the waiting tickets by label, the next one at the top, and those that wait for several slots at once."""
    answer = await _queues(hub, label, limit)
    rows = [{"label": queue["label"], **ticket} for queue in answer["labels"] for ticket in queue["tickets"]]
    bundles = answer["bundles"]
    waiting = sum(queue["waiting"] for queue in answer["labels"]) if label else answer["waiting"] - len(bundles)

    def show() -> None:
        if rows:
            _TICKETS.put(rows)
        if rows and bundles:
            output.put("")
        if bundles:
            _BUNDLES.put(bundles)
        elif not rows:
            output.put("Nobody waits." if label is None else f"Nobody waits for {label}.")
        if waiting > len(rows):
            output.note(f"{len(rows)} of {waiting} tickets shown; --limit shows more.")
        if answer["away"]:
            output.note(f"{output.plural(answer['away'], 'position')} kept for callers that hung up and may come back.")

    return CommandAnswer(answer, show)


@queue_app.add("show")
async def show_ticket(hub: HubApi, ticket: str = _TICKET) -> CommandAnswer:
    """Show a ticket: its position in the queue, or the slot that it was given."""
    answer = await hub.get("queue", ticket)
    return facts(answer, {**_TICKET_FACTS, "TICKET": lambda row: row.get("ticket") or ticket}, only_known=True)


@queue_app.add("cancel", "ticket")
async def cancel(
    hub: HubApi,
    ticket: str = _TICKET,
    reason: str | None = TEXT.option("The reason of an operator, to cancel the ticket of a user."),
) -> CommandAnswer:
    """Cancel a waiting ticket; its caller is told at once."""
    return CommandAnswer(await hub.ask("DELETE", "queue", ticket, reason=reason), f"{ticket} is given up.")


@caps_app.add("ls", "admin")
async def list_caps(hub: HubApi) -> CommandAnswer:
    """Show the caps, with the number of live leases and of waiting tickets."""
    caps = await hub.get("admin", "caps")
    return CommandAnswer(caps, lambda: _CAPS.put([*(caps.get("caps") or ()), _default(caps, "all others")]))


@caps_app.add("show", "admin")
async def show_cap(hub: HubApi, label: str = _CAP_LABEL) -> CommandAnswer:
    """Show the cap of a label, or the default cap where the label has none of its own."""
    caps = await hub.get("admin", "caps")
    rows = [row for row in caps["caps"] if row["label"] == label]
    return _CAPS.one(min(rows, key=lambda row: row["source"] == "served", default=_default(caps, label)))


@caps_app.add("set", "admin")
async def set_cap(
    hub: HubApi,
    label: str = _CAP_LABEL,
    cap: int = Argument(..., min=0, max=CAP_MAX, metavar="N", help="The cap; 0 is no limit."),
    served: bool = _SERVED,
) -> CommandAnswer:
    """Set how many leases of a label may be live at once, for all hubs. A higher cap serves waiting tickets at once."""
    return await _set_cap(hub, label, cap, served)


@caps_app.add("clear", "admin")
async def clear_cap(hub: HubApi, label: str = _CAP_LABEL, served: bool = _SERVED) -> CommandAnswer:
    """Remove a cap: HUB_BORROW_CONCURRENCY_CAPS or HUB_BORROW_CONCURRENCY_DEFAULT hold again."""
    return await _set_cap(hub, label, None, served)


async def _queues(hub: HubApi, label: str | None, limit: int) -> Row:
    """Return the queues of all pages, or of one label, with at most `limit` tickets in all."""
    queues_so_far: list[Row] = []
    bundles: list[Row] | None = None
    left = limit
    while True:
        page = await hub.get("queue", label=label, offset=len(queues_so_far), limit=LABELS, tickets=min(TICKETS, left))
        total, queues = members(page, "labels")
        bundles = page.get("bundles", []) if bundles is None else bundles  # each page has them
        for queue in queues:
            queue["tickets"] = queue["tickets"][:left]
            left -= len(queue["tickets"])
        queues_so_far += queues
        if left <= 0 or len(queues_so_far) >= total or not queues:
            return {**page, "labels": queues_so_far, "bundles": bundles}


def _slots(ticket: Row) -> str | None:
    return ticket.get("slotId") or ", ".join(slot["slotId"] for slot in ticket.get("slots") or ())


def _default(caps: Row, label: str) -> Row:
    """Return the default cap in the form of the cap of a label; `label` is the name to show."""
    return {"label": label, "cap": caps.get("default"), "source": caps.get("defaultSource")}


async def _set_cap(hub: HubApi, label: str, cap: int | None, served: bool) -> CommandAnswer:
    kind = {"served": True} if served else {}
    answer = await hub.ask("PUT", "admin", "caps", label, body={"cap": cap, "by": caller(), **kind})
    name = "any label without a cap of its own" if label == ALL else label
    name += " and the pools below it" if served else ""
    limit = f"At most {output.plural(answer.get('cap'), 'lease')}" if answer.get("cap") else "Any number of leases"
    now = "" if label == ALL else f"; {answer.get('inFlight')} live, {answer.get('waiting')} waiting"
    notes = [answer["hint"]] if answer.get("hint") else []
    return CommandAnswer(answer, f"{limit} of {name} may be live at once ({answer.get('source')}){now}.", notes)


_TICKETS = Listing(
    "tickets",
    {
        "LABEL": "label", "POSITION": "position", "TICKET": "ticket", "HOLDER": holder_name, "RUN": run_name,
        "PRIORITY": "priority", "WAITING SINCE": time_of("since"), "ESTIMATE": duration_of("estimatedWaitSeconds"),
        "WANTS": choices,
    },
    numbers=("POSITION", "PRIORITY", "ESTIMATE"),
    expendable=("WAITING SINCE", "PRIORITY", "RUN", "HOLDER"),
    rare=("WANTS",),
)  # fmt: skip
_BUNDLES = Listing(
    "bundles",
    {
        "SLOTS": parts, "POSITION": "position", "TICKET": "ticket", "HOLDER": holder_name, "RUN": run_name,
        "PRIORITY": "priority", "WAITING SINCE": time_of("since"), "SET ASIDE": set_aside,
    },
    numbers=("POSITION", "PRIORITY"),
    expendable=("WAITING SINCE", "PRIORITY", "RUN", "HOLDER"),
    rare=("SET ASIDE",),
)  # fmt: skip
_TICKET_FACTS: Columns = {
    "TICKET": "ticket", "STATE": "state", "LABEL": "label", "SLOT": _slots, "NODE": "nodeId", "POSITION": "position",
    "HOLDER": holder_name, "RUN": run_name, "PRIORITY": "priority", "WAITING SINCE": time_of("since"),
    "WANTS": lambda row: choices(row) or parts(row), "SET ASIDE": set_aside, "BUNDLE": "bundle", "HINT": "hint",
    "ESTIMATE": lambda row: output.duration(row["estimatedWaitSeconds"]) if "estimatedWaitSeconds" in row else None,
}  # fmt: skip
_CAPS = Listing(
    "caps",
    {
        "LABEL": "label", "AT MOST": lambda row: row.get("cap") or "no limit", "SET BY": "source", "LIVE": "inFlight",
        "WAITING": "waiting",
    },
    numbers=("AT MOST", "LIVE", "WAITING"),
)  # fmt: skip
