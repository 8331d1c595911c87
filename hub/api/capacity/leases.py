"""The endpoints for leases: borrow, return, renew, verify, and list the live ones."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, NamedTuple, TypeVar

from fastapi import APIRouter, Depends, Request

from hub import core
from hub.api.callers.admission import admit_again
from hub.api.callers.caller import LabelNotAllowed, PriorityNotAllowed
from hub.api.capacity.asking import Wish, asked, borrow_request
from hub.api.capacity.borrowers import ends_as, holder_of, holder_shape
from hub.api.handling import traces
from hub.api.handling.context import in_ms, is_gone
from hub.api.inputs import Audit, Caller, Hub, Query, Sent, hub_of, serving_of
from hub.api.operations import NO_SLOT, TOKEN, Subject, operation
from hub.api.realms.spilling import at_lender
from hub.api.realms.subjects import UnknownRealm
from hub.api.shapes import parameters as p
from hub.api.shapes import reading as bodies
from hub.api.shapes.answer import Answer
from hub.api.shapes.lease_bodies import AttributeBody, RenewBody, ReturnBody
from hub.api.shapes.leases import (
    GrantShape,
    MappedShape,
    RenewedShape,
    ReturnedShape,
    VerifiedShape,
)
from hub.capacity.labels import parse_label
from hub.capacity.models import RUN_MAX, BorrowRequest, Lease, LeaseHolder, text_of
from hub.errors import (
    BadWhere,
    CallerGone,
    Forbidden,
    HubError,
    InvalidLabel,
    InvalidValue,
    KeyReused,
    LeaseOver,
    MissingMember,
    NoCapacity,
    NoSuchPool,
    NotHolder,
    Settling,
    Stopping,
    TooManyExpressions,
    Unauthorized,
    WaitedInVain,
    Withdrawn,
)
from hub.history.teams import at_ceiling
from hub.observability import metrics
from hub.observability.tracing import tracing
from hub.store.keys import key_part
from hub.tokens.secrets import ADMIN, NODE, RUNNER
from hub.usage.models import OTHER

router = APIRouter(tags=["sessions"])
A = TypeVar("A")
IN_VAIN = (WaitedInVain, CallerGone)
RECHECK_S = (
    1.0  # after a longer wait the caller's token is looked at again; a hub knows of a revoked one within a second
)
NOT_ALLOWED = (LabelNotAllowed, PriorityNotAllowed)
OF_BORROWS = (InvalidLabel, BadWhere, NoSuchPool, *NOT_ALLOWED, LeaseOver, Withdrawn, KeyReused, *NO_SLOT)
NO_SLOT_LENT = (NoCapacity, NoSuchPool, Forbidden, PriorityNotAllowed)  # the refusals that usage counts


async def denied(_: Request, refusal: HubError) -> None:
    """Count a borrow that was refused before its endpoint."""
    if isinstance(refusal, Unauthorized | Stopping | MissingMember | InvalidLabel | BadWhere | InvalidValue):
        metrics.borrow_outcomes.labels("unknown", "denied").inc()


def _lending(request: Request) -> core.Hub:
    """Return the hub; raises `Stopping` when it lends no more."""
    found = serving_of(request)
    if found.stopping:
        raise Stopping()
    return found.hub


LendingHub = Annotated[core.Hub, Depends(_lending)]
AskedBorrow = Annotated[Wish, Depends(asked)]


@router.post(
    "/session/borrow",
    **operation(
        "borrowSlot",
        (RUNNER, ADMIN),
        p.KEY,
        *p.RUN,
        headers=("Correlation-Id",),
        refusals=(*OF_BORROWS, UnknownRealm, TooManyExpressions),
        about=Subject("borrow", in_body=True),
        denied=denied,
        borrows=True,
        below_v2="/borrow",
    ),
)
async def borrow(request: Request, hub: LendingHub, caller: Caller, wish: AskedBorrow) -> Answer[GrantShape]:
    """Borrow a slot of a pool, waiting in the queue while none is free.

    Answers 503 when no slot is lent in time; `code` says why: `timeout`, `deadline`, `per-label-cap`, `per-run-cap`.
    Where no pool serves the label, `hint` says so; with `"waitForPool": false` such a borrow is answered 404
    `no-such-pool` at once. A token that may not borrow the label is answered 403 `label`, and 403 `priority` above its
    highest priority. With `where` only a slot that is so is lent, and `hint` says why none could be. With `anyOf` a
    slot of any of these is lent, a free one of the first if there is one; the answer has the label that it is for.
    """
    with counting(hub, caller, *wish.labels) as counted:
        said = wish.sent.read()
        caller.check_priority(said.priority)
        by = holder_of(request, caller, said)
        wanted = borrow_request(request, hub, wish, said, bodies.run_id(request, said.run_id), by)
        await follow(hub, wanted)
        if not said.wait_for_pool and not wanted.elsewhere:
            await hub.hints.check(*wish.labels)
        lease = await lend(hub, wanted, hub.leases.borrow(wanted, lambda: hung_up(request)))
    await deliver(request, hub, caller, wanted, counted.started, lease)
    counted.served.inc()
    return Answer(granted(hub, lease, said.run_name or None), run=lease.run)


class Counting(NamedTuple):
    """The figures of a borrow under way: when it began, on the monotonic clock, and the counter of those served."""

    started: float
    served: Any


@contextmanager
def counting(hub: Hub, caller: Caller, *labels: str) -> Iterator[Counting]:
    """Count a borrow of these labels under the first, how long the block takes, and a refusal in it. Raises
    `LabelNotAllowed`."""
    label, who = labels[0], (caller.team, caller.name if caller.user else "")
    try:
        for each in labels:
            caller.check_label(each)
    except LabelNotAllowed:
        hub.usage.refused(OTHER, *who)  # a caller may make up as many labels as it likes
        raise
    shown = metrics.bounded(label)
    counted = metrics.borrows_of(shown)
    counted.requests.inc()
    started = time.monotonic()
    try:
        yield Counting(started, counted.served)
    except HubError as error:
        if isinstance(error, NO_SLOT_LENT):
            hub.usage.refused(label, *who)
        metrics.borrow_outcomes.labels(shown, "timeout" if isinstance(error, IN_VAIN) else "denied").inc()
        raise
    finally:
        counted.seconds.observe(time.monotonic() - started)


async def follow(hub: Hub, wanted: BorrowRequest) -> None:
    """Let the trace of a borrow with a key go on that of its ticket: a repeat with the same key is the same ticket."""
    if tracing.on and wanted.keyed:
        await traces.follow(hub.store, traces.ticket(wanted.request))
        traces.keep(hub.store, traces.ticket(wanted.request))


async def deliver(
    request: Request, hub: Hub, caller: Caller, wanted: BorrowRequest, started: float, *leases: Lease
) -> None:
    """Undo leases whose caller has hung up, or may not borrow any more: then raise as `admit` does."""
    if tracing.on:
        for lease in leases:
            traces.keep(hub.store, traces.lease(lease.slot, lease.token))
    if await is_gone(request):
        await hub.leases.undo(wanted, *leases)
    if caller.by and time.monotonic() - started > RECHECK_S:
        await still_admitted(request, hub, wanted, *leases)


async def lend(hub: Hub, wanted: BorrowRequest, lent: Awaitable[A]) -> A:
    """Return what a borrow gets; a refusal says where it would have waited, and what may be meant."""
    try:
        return await lent
    except NoCapacity as error:
        if "position" not in error.facts:  # the borrow was never queued: answer the place that it would have had
            place = await hub.tickets.prospect(wanted)
            error.facts.update(place.facts())
        if hint := await hub.hints.of_borrow(wanted) or await at_ceiling(hub, wanted):
            error.facts["hint"] = hint
        raise
    except NoSuchPool as error:
        if hint := await hub.hints.of_borrow(wanted):
            error.facts["hint"] = hint
        raise


async def still_admitted(request: Request, hub: Hub, wanted: BorrowRequest, *leases: Lease) -> None:
    """Undo leases that were waited for by a caller that may not borrow any more, and raise as `admit` does: its token
    may have ended meanwhile."""
    try:
        await admit_again(request)
    except (Unauthorized, Forbidden):
        await hub.leases.undo(wanted, *leases)
        raise


async def hung_up(request: Request) -> None:
    """Wait until the caller has closed its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def granted(hub: Hub, lease: Lease, run_name: str | None) -> GrantShape:
    """Return the body that answers the borrower of a lease."""
    said = lease.said
    endpoint, kind = said.get("webSocketEndpoint"), said.get("browserType")
    holder = LeaseHolder.read(lease.holder)
    shown = GrantShape(
        browserId=lease.slot,
        webSocketEndpoint=endpoint if isinstance(endpoint, str) else "",
        labelKey=lease.label,
        browserType=kind,
        nodeId=text_of(said, "nodeId", lease.item) or None,
        runName=(holder and holder.run_name) or run_name,
        holder=holder_shape(holder),
        expiresAtUtc=in_ms(hub, lease.left_ms),
        matchedLabel=lease.pool,
        leaseToken=lease.token,
        ttlSeconds=lease.left_ms / 1000 if lease.left_ms % 1000 else lease.left_ms // 1000,
        runId=lease.run,
        item=said,
    )
    if holder and holder.bundle:
        shown["bundle"] = holder.bundle
    if lease.realm is not None:
        shown["realm"] = lease.realm
    return shown


def _arrived_ms(request: Request) -> int | None:
    """Return when the head of a call arrived, on the clock of the store."""
    return hub_of(request).store.latest_ms()


ArrivedMs = Annotated[int | None, Depends(_arrived_ms)]


@router.post(
    "/session/return",
    **operation(
        "returnSlot",
        (RUNNER, ADMIN, NODE, TOKEN),
        p.KEY,
        *p.RUN,
        headers=("Correlation-Id",),
        refusals=(InvalidLabel, Forbidden, NotHolder, KeyReused, Settling),
        about=Subject("lease", in_body=True),
        borrows=True,
        below_v2="/return",
    ),
)
async def give_back(
    request: Request, hub: Hub, arrived_ms: ArrivedMs, caller: Caller, said: Sent[ReturnBody], audit: Audit
) -> Answer[ReturnedShape]:
    """Give a slot back. Any number of repetitions is answered 200; an answer with a `note` says that the call changed
    nothing.

    An operator ends the lease of another holder with `revoke`: the holder is told, and the slot is lent again when the
    holder has stopped, at the latest after `HUB_REVOKE_GRACE_SECONDS`; with `force` at once. The `reason` of an
    operator goes into the audit log and to the holder. A lease of a user is ended by that user, by its node, and by an
    operator with a reason; 403 `not-holder` names its holder to others. With `onlyRun` the lease is ended only if it
    belongs to the run that the call names.
    """
    slot, label = said.browser_id, parse_label(said.label_key, segments_min=1)
    run = bodies.run_id(request, said.run_id)
    key = bodies.request_key(request)
    await caller.check_slot(hub, key_part(slot.strip()))
    by, reason = ends_as(request, caller, said)
    if tracing.on and said.lease_token:
        await traces.follow(hub.store, traces.lease(slot, said.lease_token))

    async def end(lending: Hub) -> tuple[str, str, str]:
        return await lending.leases.give_back(
            key_part(slot.strip()), label.text, said.lease_token, run=run, only_run=said.only_run, key=key,
            revokes=said.revokes, reason=reason, arrived_ms=arrived_ms if lending is hub else None, by=by,
        )  # fmt: skip

    word, _, run_of_grant = await at_lender(request, hub, key_part(slot.strip()), said.lease_token, end)
    answer = ReturnedShape(returned=slot)
    if word != "returned":
        answer["note"] = "already returned"
    if said.only_run or said.reason:
        answer["runId"] = run_of_grant
    if said.reason and said.revokes and word in ("returned", "ended"):
        facts = {"slotId": slot, "runId": run_of_grant, "reason": said.reason}
        await audit.write("session", "session.revoke", **facts)
    return Answer(answer, run=(run or run_of_grant) if word in ("returned", "ended") else "")


@router.post(
    "/session/renew",
    **operation(
        "renewLease",
        (RUNNER, ADMIN),
        refusals=(LeaseOver, NotHolder, Settling),
        about=Subject("lease", in_body=True),
        borrows=True,
        below_v2="/renew",
        routine=True,
    ),
)
async def renew(request: Request, hub: Hub, caller: Caller, said: Sent[RenewBody]) -> Answer[RenewedShape]:
    """Extend a lease, never beyond its longest life. Answers 409 `grant-over` when the lease has ended, and 403
    `not-holder` to a caller that does not hold it."""
    slot, token = said.browser_id, said.lease_token
    if tracing.on:
        await traces.follow(hub.store, traces.lease(slot, token))
    ttl_ms = renewed_ms(hub, said.ttl_seconds, said.ttl_is_default)
    held, left_ms = await at_lender(
        request, hub, key_part(slot.strip()), token,
        lambda lending: lending.leases.renew(key_part(slot.strip()), token, ttl_ms, caller.by),
    )  # fmt: skip
    return Answer(
        RenewedShape(browserId=slot, leaseToken=held, ttlSeconds=left_ms / 1000, expiresAtUtc=in_ms(hub, left_ms))
    )


def renewed_ms(hub: Hub, ttl_s: float | None, is_default: bool) -> int | None:
    """Return for how many ms a renewal asks, within the settings; negative for a default of the client, None where it
    does not say it."""
    if ttl_s is None:
        return None
    ttl_s = min(max(ttl_s, hub.settings.borrow_ttl_min_s), hub.settings.max_session_ttl_s)
    return int(ttl_s * 1000) * (-1 if is_default else 1)


@router.get(
    "/leases/{slot}/verify",
    **operation("verifyLease", (RUNNER, NODE, ADMIN, TOKEN), p.FENCE, refusals=(Forbidden, Settling)),
)
async def verify(request: Request, hub: Hub, caller: Caller, query: Query, slot: str) -> Answer[VerifiedShape]:
    """Compare a fencing token with that of the lease that holds the slot now. The side that owns the resource calls
    this."""
    token = query.get("token", "")
    if not token:
        raise MissingMember("missing token: ask with ?token=", member="token")
    await caller.check_slot(hub, key_part(slot))
    word, left_ms = await at_lender(
        request, hub, key_part(slot), token, lambda lending: lending.leases.verify(key_part(slot), token)
    )
    if word == "ok":
        return Answer(VerifiedShape(slotId=slot, valid=True, ttlSeconds=left_ms / 1000))
    return Answer(VerifiedShape(slotId=slot, valid=False, reason=word))


@router.post("/results/browser/{slot}/test", **operation("mapSlotToTest", (RUNNER,), *p.RUN))
async def attribute(request: Request, hub: Hub, said: Sent[AttributeBody], slot: str) -> Answer[MappedShape]:
    """Note which test runs on a slot, for six hours or until the slot's lease ends."""
    test = said.test_id.strip()
    await hub.leases.attribute(slot, test[:RUN_MAX], bodies.run_id(request, said.run_id))
    return Answer(MappedShape(mapped=slot, testId=test))
