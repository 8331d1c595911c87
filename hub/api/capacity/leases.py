"""The endpoints for leases: borrow, return, renew, verify, and list the live ones."""

from __future__ import annotations

import hashlib
import time
from typing import Annotated

from fastapi import APIRouter, Depends, Request

from hub import core
from hub.api.handling import traces
from hub.api.handling.context import in_ms, is_gone
from hub.api.inputs import Audit, Caller, Hub, Page, Query, Sent, UnreadBody, hub_of, serving_of, unread_body_of
from hub.api.operations import NO_SLOT, TOKEN, Subject, operation, takes
from hub.api.realms.spilling import at_lender, where_else
from hub.api.realms.subjects import UnknownRealm
from hub.api.shapes import parameters as p
from hub.api.shapes import reading as bodies
from hub.api.shapes.answer import Answer
from hub.api.shapes.lease_bodies import AttributeBody, BorrowBody, RenewBody, ReturnBody
from hub.api.shapes.leases import (
    GrantShape,
    MappedShape,
    RenewedShape,
    ReturnedShape,
    SessionPageShape,
    SessionShape,
    VerifiedShape,
)
from hub.capacity.labels import Label, parse_kinds, parse_label
from hub.capacity.leases import KEEP_OWN_S, keep_key_s, new_attempt
from hub.capacity.models import RUN_MAX, BorrowRequest, Lease, LeaseRecord, text_of
from hub.errors import (
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
    NotFound,
    Settling,
    Stopping,
    Unauthorized,
    WaitedInVain,
    Withdrawn,
)
from hub.observability import metrics
from hub.observability.tracing import tracing
from hub.settings import Settings
from hub.store.keys import key_part
from hub.tokens.secrets import ADMIN, NODE, RUNNER

router = APIRouter(tags=["sessions"])
IN_VAIN = (WaitedInVain, CallerGone)


async def _denied(_: Request, refusal: HubError) -> None:
    if isinstance(refusal, Unauthorized | Stopping | MissingMember | InvalidLabel):
        metrics.borrow_outcomes.labels("unknown", "denied").inc()


def _lending(request: Request) -> core.Hub:
    """Return the hub; raises `Stopping` when it lends no more."""
    found = serving_of(request)
    if found.stopping:
        raise Stopping()
    return found.hub


@takes(body=BorrowBody)
async def _asked(request: Request) -> tuple[Label, UnreadBody[BorrowBody]]:
    """Return the label that a borrow asks for, and its body; raises `InvalidJson`, `MissingMember` and
    `InvalidLabel`."""
    sent: UnreadBody[BorrowBody] = await unread_body_of(BorrowBody)(request)
    given = bodies.text(sent.document, "labelKey")
    if not given:
        raise MissingMember("missing labelKey", member="labelKey")
    return asked_label(hub_of(request), given), sent


LendingHub = Annotated[core.Hub, Depends(_lending)]
AskedBorrow = Annotated[tuple[Label, UnreadBody[BorrowBody]], Depends(_asked)]


@router.post(
    "/session/borrow",
    **operation(
        "borrowSlot",
        (RUNNER,),
        p.KEY,
        *p.RUN,
        headers=("Correlation-Id",),
        refusals=(InvalidLabel, NoSuchPool, UnknownRealm, LeaseOver, Withdrawn, KeyReused, *NO_SLOT),
        about=Subject("borrow", in_body=True),
        denied=_denied,
    ),
)
async def borrow(request: Request, hub: LendingHub, asked: AskedBorrow) -> Answer[GrantShape]:
    """Borrow a slot of a pool, waiting in the queue while none is free.

    Answers 503 when no slot is lent in time; `code` says why: `timeout`, `deadline`, `per-label-cap`, `per-run-cap`.
    Where no pool serves the label, `hint` says so; with `"waitForPool": false` such a borrow is answered 404
    `no-such-pool` at once.
    """
    label, sent = asked
    shown = metrics.bounded(label.text)
    counted = metrics.borrows_of(shown)
    counted.requests.inc()
    started = time.monotonic()
    try:
        said = sent.read()
        wanted = _borrow_request(request, hub, said, label, bodies.run_id(request, said.run_id))
        if tracing.on and wanted.keyed:  # a repeat with the same key is the same ticket
            await traces.follow(hub.store, traces.ticket(wanted.request))
            traces.keep(hub.store, traces.ticket(wanted.request))
        if not said.wait_for_pool and not wanted.elsewhere:
            await hub.hints.check(label.text)
        lease = await _lend(hub, request, wanted)
        if tracing.on:
            traces.keep(hub.store, traces.lease(lease.slot, lease.token))
    except HubError as error:
        metrics.borrow_outcomes.labels(shown, "timeout" if isinstance(error, IN_VAIN) else "denied").inc()
        raise
    finally:
        counted.seconds.observe(time.monotonic() - started)
    if await is_gone(request):
        await hub.leases.undo(wanted, lease)
    counted.served.inc()
    return Answer(granted(hub, lease, said.run_name or None), run=lease.run)


async def _lend(hub: Hub, request: Request, wanted: BorrowRequest) -> Lease:
    try:
        return await hub.leases.borrow(wanted, lambda: hung_up(request))
    except NoCapacity as error:
        if "position" not in error.facts:  # the borrow was never queued: answer the place that it would have had
            place = await hub.tickets.prospect(wanted.label, wanted.priority)
            error.facts.update(place.facts())
        if hint := await hub.hints.of(wanted.label):
            error.facts["hint"] = hint
        raise


async def hung_up(request: Request) -> None:
    """Wait until the caller has closed its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def asked_label(hub: Hub, text: str) -> Label:
    """Return the label that a borrower asks for, which may have wildcards; raises `InvalidLabel`."""
    return parse_label(text, parse_kinds(hub.settings.label_kinds), wildcards=hub.agreed.holds.wildcards)


def _borrow_request(request: Request, hub: Hub, said: BorrowBody, label: Label, run: str) -> BorrowRequest:
    settings = hub.settings
    ttl_s = settings.borrow_ttl_s if said.ttl_seconds is None else said.ttl_seconds
    ttl_s = min(max(ttl_s, settings.borrow_ttl_min_s), 86_400, settings.max_session_ttl_s)
    elsewhere, home_s = where_else(request, hub, said.realms)
    key, attempt = bodies.request_key(request), new_attempt(settings.realm)
    asked = f"{label.text}\0{ttl_s}\0{run}"
    wait_s = longest_wait_s(settings)
    limit_s = said.max_wait_seconds
    return BorrowRequest(
        label=label.text,
        ttl_ms=int(ttl_s * 1000),
        run=run or bodies.new_run_id(hub.store.wall_s()),
        request=key or attempt,
        attempt=attempt,
        fingerprint=hashlib.sha256(asked.encode()).hexdigest()[:16],
        keep_s=keep_key_s(settings, int(ttl_s * 1000)) if key else KEEP_OWN_S,
        keyed=key is not None,
        priority=said.priority,
        wait_ms=int(1000 * (wait_s if limit_s is None else min(limit_s, wait_s))),
        # A borrow that other realms may serve waits, however long the queue of this realm is.
        limit_ms=-1 if limit_s is None or elsewhere else int(limit_s * 1000),
        elsewhere=elsewhere,
        home_ms=int(home_s * 1000),
    )


def longest_wait_s(settings: Settings) -> float:
    """Return for how many seconds a call may wait in the queue. The wait must end before the time limit of the
    request."""
    return min(settings.borrow_queue_timeout_s, settings.request_timeout_s * 0.95)


def granted(hub: Hub, lease: Lease, run_name: str | None) -> GrantShape:
    """Return the body that answers the borrower of a lease."""
    said = lease.said
    endpoint, kind = said.get("webSocketEndpoint"), said.get("browserType")
    shown = GrantShape(
        browserId=lease.slot,
        webSocketEndpoint=endpoint if isinstance(endpoint, str) else "",
        labelKey=lease.label,
        browserType=kind,
        nodeId=text_of(said, "nodeId", lease.item) or None,
        runName=run_name,
        expiresAtUtc=in_ms(hub, lease.left_ms),
        matchedLabel=lease.pool,
        leaseToken=lease.token,
        ttlSeconds=lease.left_ms / 1000 if lease.left_ms % 1000 else lease.left_ms // 1000,
        runId=lease.run,
        item=said,
    )
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
        (RUNNER, NODE, TOKEN),
        p.KEY,
        *p.RUN,
        headers=("Correlation-Id",),
        refusals=(InvalidLabel, Forbidden, KeyReused),
        about=Subject("lease", in_body=True),
    ),
)
async def give_back(
    request: Request, hub: Hub, arrived_ms: ArrivedMs, caller: Caller, said: Sent[ReturnBody], audit: Audit
) -> Answer[ReturnedShape]:
    """Give a slot back. Any number of repetitions is answered 200; an answer with a `note` says that the call changed
    nothing.

    An operator ends the lease of another holder with `revoke`: the holder is told, and the slot is lent again when the
    holder has stopped, at the latest after `HUB_REVOKE_GRACE_SECONDS`; with `force` at once. The `reason` of an
    operator goes into the audit log. With `onlyRun` the lease is ended only if it belongs to the run that the call
    names.
    """
    slot, label = said.browser_id, parse_label(said.label_key)
    run = bodies.run_id(request, said.run_id)
    key = bodies.request_key(request)
    await caller.check_slot(hub, key_part(slot.strip()))
    if tracing.on and said.lease_token:
        await traces.follow(hub.store, traces.lease(slot, said.lease_token))

    async def end(lending: Hub) -> tuple[str, str, str]:
        return await lending.leases.give_back(
            key_part(slot.strip()), label.text, said.lease_token, run=run, only_run=said.only_run, key=key,
            revokes=said.revokes, reason=said.reason, arrived_ms=arrived_ms if lending is hub else None,
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
    **operation("renewLease", (RUNNER,), refusals=(LeaseOver, Settling), about=Subject("lease", in_body=True)),
)
async def renew(request: Request, hub: Hub, said: Sent[RenewBody]) -> Answer[RenewedShape]:
    """Extend a lease, never beyond its longest life. Answers 409 `grant-over` when the lease has ended."""
    slot, token, ttl_s = said.browser_id, said.lease_token, said.ttl_seconds
    if ttl_s is not None:
        ttl_s = min(max(ttl_s, hub.settings.borrow_ttl_min_s), hub.settings.max_session_ttl_s)
    if tracing.on:
        await traces.follow(hub.store, traces.lease(slot, token))
    ttl_ms = None if ttl_s is None else int(ttl_s * 1000)
    held, left_ms = await at_lender(
        request, hub, key_part(slot.strip()), token,
        lambda lending: lending.leases.renew(key_part(slot.strip()), token, ttl_ms),
    )  # fmt: skip
    return Answer(
        RenewedShape(browserId=slot, leaseToken=held, ttlSeconds=left_ms / 1000, expiresAtUtc=in_ms(hub, left_ms))
    )


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


@router.get(
    "/sessions", **operation("listLeases", (RUNNER, ADMIN), p.OF_LABEL, p.OF_POOL, p.OF_NODE, p.OF_RUN, shared=True)
)
async def sessions(hub: Hub, page: Page, query: Query) -> Answer[SessionPageShape]:
    """Return a page of the live leases, those that end first at the top: all, or those of one label, pool, node or
    run."""
    total, slots = await _page(hub, page, query)
    found = await hub.leases.find_all(slots)
    return Answer(SessionPageShape(total=total, sessions=[_session(each) for each in found if each]))


async def _page(hub: Hub, page: Page, query: Query) -> tuple[int, list[str]]:
    keys = hub.store.keys
    match [(name, query[name]) for name in ("label", "pool", "node", "run") if name in query]:
        case []:
            return await hub.leases.page(keys.deadlines, *page)
        case [("label", label)]:
            return await hub.leases.page(keys.in_flight(label), *page)
        case [("run", run)]:
            return await hub.leases.page(keys.run(run), *page)
        case [("node", node)]:
            return await hub.nodes.lent(node, *page)
        case [("pool", pool)]:
            return await hub.pools.lent(pool, *page)
    raise InvalidValue("filter by one of label, pool, node or run at a time")


@router.get("/sessions/{slot}", **operation("getLease", (RUNNER, ADMIN), refusals=(NotFound,)))
async def session(hub: Hub, slot: str) -> Answer[SessionShape]:
    """Return the live lease of a slot; 404 when it is not lent."""
    found = await hub.leases.find(key_part(slot))
    if found is None:
        raise NotFound(f"slot {slot} is not lent")
    return Answer(_session(found))


def _session(found: LeaseRecord) -> SessionShape:
    return SessionShape(
        browserId=found.slot,
        labelKey=found.label,
        poolLabel=found.pool,
        runId=found.run,
        nodeId=found.node,
        borrowedAtUtc=found.borrowed_at,
        ttlSeconds=found.ttl_s,
        secondsLeft=found.left_ms / 1000,
    )


@router.post("/results/browser/{slot}/test", **operation("mapSlotToTest", (RUNNER,), *p.RUN))
async def attribute(request: Request, hub: Hub, said: Sent[AttributeBody], slot: str) -> Answer[MappedShape]:
    """Note which test runs on a slot, for six hours or until the slot's lease ends."""
    test = said.test_id.strip()
    await hub.leases.attribute(slot, test[:RUN_MAX], bodies.run_id(request, said.run_id))
    return Answer(MappedShape(mapped=slot, testId=test))
