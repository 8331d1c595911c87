"""The queue of borrows: list it, look at one ticket, attend a ticket again, and give it up."""

from __future__ import annotations

from fastapi import APIRouter, Request

from hub.api.capacity.asking import longest_wait_s
from hub.api.capacity.borrowers import check_ticket, holder_shape, said_reason
from hub.api.capacity.bundles import bundle_shape
from hub.api.capacity.leases import granted, hung_up, still_admitted
from hub.api.handling import traces
from hub.api.handling.context import is_gone
from hub.api.inputs import Audit, Caller, Hub, Page, Query, Serving, Wait
from hub.api.operations import NO_SLOT, operation
from hub.api.realms.spilling import served
from hub.api.shapes import parameters as p
from hub.api.shapes.answer import Answer
from hub.api.shapes.bundles import GrantedBundleShape
from hub.api.shapes.leases import (
    AlternativeShape,
    BundlePlaceShape,
    CancelledShape,
    GrantedTicketShape,
    LabelQueueShape,
    PartShape,
    PlaceShape,
    QueueShape,
    WaitingTicketShape,
)
from hub.api.shapes.readers import whole_number
from hub.capacity.bundles import Reserver
from hub.capacity.labels import parse_label
from hub.capacity.leases import keep_key_s, new_attempt
from hub.capacity.models import BorrowRequest, LeaseHolder, Ticket
from hub.capacity.tickets import LabelQueue
from hub.capacity.wishes import BundleWish
from hub.errors import (
    InvalidLabel,
    InvalidValue,
    KeyReused,
    LeaseOver,
    NotHolder,
    Stopping,
    TicketGranted,
    UnknownTicket,
    WaitedInVain,
    Withdrawn,
)
from hub.history.tickets import ticket_ids
from hub.tokens.secrets import ADMIN, RUNNER
from hub.wire import time_at

router = APIRouter(tags=["queue"])
TICKETS_MAX = 1000  # tickets of one label in an answer
SHOWN_MAX = 20_000  # tickets of all labels in an answer


@router.get(
    "/queue",
    **operation(
        "listQueue", (RUNNER, ADMIN), p.TICKETS, p.OF_LABEL, refusals=(InvalidLabel,), shared=True, borrows=True
    ),
)
async def queue(hub: Hub, page: Page, query: Query) -> Answer[QueueShape]:
    """Return the borrows that wait, by label, those whose turn is next at the top: a page of the labels, or one label,
    each with the first `tickets` of its queue; and as many of the bundles, which have a line of their own.

    `away` counts tickets that no call attends at the moment: the hub passes them over, and they keep their place for a
    minute.
    """
    offset, limit = page
    tickets = whole_number(query.get("tickets", "20"), "tickets", 0, TICKETS_MAX)
    if limit * tickets > SHOWN_MAX:
        raise InvalidValue(f"limit times tickets must not be above {SHOWN_MAX}", member="tickets")
    one = parse_label(query["label"], segments_min=1).text if "label" in query else None
    total, waiting, away = await hub.tickets.counts()
    queues = await hub.tickets.queues([one] if one else await hub.tickets.labels(offset, limit), tickets)
    queues = [queue for queue in queues if queue.waiting]  # the waiters of other labels have been served since
    shown = [_queue(queue) for queue in queues]
    reserver = await hub.bundles.reserver()
    bundles = [_bundle(ticket, reserver) for ticket in await hub.bundles.waiting(tickets) if _is_of(ticket, one)]
    total = len(queues) if one else total
    return Answer(QueueShape(total=total, waiting=waiting, away=away, labels=shown, bundles=bundles))


def _is_of(ticket: Ticket, label: str | None) -> bool:
    wish = BundleWish.read(ticket.bundle)
    return wish is not None and (label is None or label in wish.labels)


def _bundle(ticket: Ticket, reserver: Reserver) -> BundlePlaceShape:
    wish, reserving = BundleWish.read(ticket.bundle), reserver.ticket == ticket.id
    return BundlePlaceShape(
        ticket=ticket.id,
        position=ticket.position,
        runId=ticket.run,
        priority=ticket.priority,
        sinceUtc=time_at(ticket.since_ms / 1000),
        secondsLeft=ticket.left_ms / 1000,
        holder=holder_shape(LeaseHolder.read(ticket.holder)),
        parts=[PartShape(label=part.label, where=part.where, count=part.number) for part in wish.parts] if wish else [],
        sameNode=bool(wish and wish.same_node),
        reserving=reserving,
        setAside=reserver.aside if reserving else 0,
    )


def _queue(queue: LabelQueue) -> LabelQueueShape:
    return LabelQueueShape(
        labelKey=queue.label,
        waiting=queue.waiting,
        turn=queue.turn,
        cap=queue.cap,
        inFlight=queue.in_flight,
        estimatedWaitSeconds=_estimate(queue.estimate_ms),
        tickets=[_place(ticket) for ticket in queue.tickets],
    )


def _place(ticket: Ticket) -> PlaceShape:
    holder = LeaseHolder.read(ticket.holder)
    shown = PlaceShape(
        ticket=ticket.id,
        position=ticket.position,
        runId=ticket.run,
        priority=ticket.priority,
        sinceUtc=time_at(ticket.since_ms / 1000),
        estimatedWaitSeconds=_estimate(ticket.estimate_ms),
        secondsLeft=ticket.left_ms / 1000,
        holder=holder_shape(holder),
    )
    if holder and holder.run_name:
        shown["runName"] = holder.run_name
    if ticket.alternatives:
        shown["anyOf"] = [AlternativeShape(label=each.label, where=each.where) for each in ticket.alternatives]
    return shown


def _estimate(estimate_ms: int) -> float | None:
    return estimate_ms / 1000 if estimate_ms >= 0 else None


@router.get(
    "/queue/{ticket:path}",
    **operation(
        "getTicket",
        (RUNNER, ADMIN),
        headers=("Correlation-Id", "Preference-Applied"),
        refusals=(UnknownTicket, LeaseOver, NotHolder, Withdrawn, KeyReused, *NO_SLOT),
        borrows=True,
    ),
)
async def look(
    request: Request, serving: Serving, caller: Caller, ticket: str, wait: Wait
) -> Answer[WaitingTicketShape | GrantedTicketShape | GrantedBundleShape]:
    """Return the state of a borrow, named by its `Idempotency-Key` or by its ticket: `waiting`, `away` or `granted`.

    A plain look changes nothing; a lease in the answer belongs to the waiter, and is shown to it alone. With
    `Prefer: wait=N` the caller that borrowed attends a ticket that has a key, as a repeat of the borrow would: the
    ticket keeps its place, a lease is the caller's own, and the answer comes once there is a lease or after N seconds.
    The place is kept for another minute after that, and after the caller hangs up. Answers 409 `grant-over` when the
    lease has ended, and 409 `withdrawn` when the ticket is given up meanwhile.
    """
    hub = serving.hub
    found = await hub.tickets.find(*ticket_ids(ticket))
    if found.place is not None:
        found = await served(request, found, found.place)
    wait_s = min(wait, int(longest_wait_s(hub.settings)))
    if found.lease is not None or (wait_s and found.keyed):
        check_ticket(caller, found)
    if not wait_s or not found.keyed:
        return await _shown(hub, found)
    if serving.stopping:
        raise Stopping()
    answer = await _shown(hub, await _attend(request, hub, found, wait_s))
    answer.headers["preference-applied"] = f"wait={wait_s}"
    return answer


async def _attend(request: Request, hub: Hub, ticket: Ticket, wait_s: int) -> Ticket:
    """Wait in the queue for a ticket, at most `wait_s` seconds; return the ticket with its lease, or as it is at the
    end."""
    wanted = BorrowRequest(
        label=ticket.label,
        ttl_ms=ticket.ttl_ms,
        run=ticket.run,
        request=ticket.id,
        attempt=new_attempt(hub.settings.realm),
        fingerprint=ticket.fingerprint,
        keep_s=keep_key_s(hub.settings, ticket.ttl_ms),
        keyed=True,
        priority=ticket.priority,
        wait_ms=wait_s * 1000,
        holder=ticket.holder,
        alternatives=ticket.alternatives,
        bundle=ticket.bundle,
        hopes=True,  # whether it might wait was decided when it came
    )
    await traces.follow(hub.store, traces.ticket(wanted.request))
    try:
        if ticket.bundle:
            leases = (await hub.bundles.borrow_all(wanted, lambda: hung_up(request))).leases
        else:
            leases = (await hub.leases.borrow(wanted, lambda: hung_up(request)),)
    except WaitedInVain:
        found = await hub.tickets.find(ticket.id)
        return found if found.place is None else await served(request, found, found.place)
    if await is_gone(request):
        await hub.leases.undo(wanted, *leases)
    await still_admitted(request, hub, wanted, *leases)
    for lease in leases:
        traces.keep(hub.store, traces.lease(lease.slot, lease.token))
    first = leases[0]
    return Ticket(ticket.id, "granted", first.label, first.run, lease=first)


async def _shown(hub: Hub, ticket: Ticket) -> Answer[WaitingTicketShape | GrantedTicketShape | GrantedBundleShape]:
    if ticket.lease is None:
        place = WaitingTicketShape(
            **_place(ticket), state="away" if ticket.state == "away" else "waiting", labelKey=ticket.label
        )
        if ticket.bundle:
            found = _bundle(ticket, await hub.bundles.reserver())
            place["parts"], place["sameNode"] = found["parts"], found["sameNode"]
            place["reserving"], place["setAside"] = found["reserving"], found["setAside"]
        if (ticket.alternatives or ticket.bundle) and (hint := await hub.hints.of_borrow(ticket)):
            place["hint"] = hint
        return Answer(place, run=ticket.run)
    holder = LeaseHolder.read(ticket.lease.holder)
    if holder and holder.bundle:
        lent_all = bundle_shape(hub, await hub.bundles.of(holder.bundle))
        return Answer(GrantedBundleShape(**lent_all, ticket=ticket.id, state="granted"), run=ticket.run)
    lent = granted(hub, ticket.lease, None)
    return Answer(GrantedTicketShape(**lent, ticket=ticket.id, state="granted"), run=ticket.run)


@router.delete(
    "/queue/{ticket:path}",
    **operation(
        "cancelTicket",
        (RUNNER, ADMIN),
        p.REASON,
        refusals=(UnknownTicket, LeaseOver, NotHolder, TicketGranted),
        borrows=True,
    ),
)
async def give_up(request: Request, hub: Hub, caller: Caller, ticket: str, audit: Audit) -> Answer[CancelledShape]:
    """Give up a borrow that waits; the call that attends it is answered 409 `withdrawn` at once. A repeat changes
    nothing.

    A borrow of a user is given up by that user, and by an operator with a reason (`?reason=`, or `x-hub-reason` of the
    console); others are answered 403 `not-holder`. Answers 409 `ticket-granted` when the borrow holds a slot by now,
    and 409 `grant-over` when its lease has ended.
    """
    reason = said_reason(request) if caller.commands else ""
    await hub.tickets.cancel(*ticket_ids(ticket), by="operator" if reason else caller.by)
    if reason:
        await audit.write("session", "ticket.cancel", ticket=ticket, reason=reason)
    return Answer(CancelledShape(cancelled=True))
