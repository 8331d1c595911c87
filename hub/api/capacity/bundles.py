"""The endpoints for bundles: borrow several slots at once, renew their leases, and give them back."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request

from hub.api.capacity.asking import asked_bundle, bundle_request
from hub.api.capacity.borrowers import holder_of
from hub.api.capacity.leases import (
    OF_BORROWS,
    LendingHub,
    counting,
    deliver,
    denied,
    follow,
    granted,
    hung_up,
    lend,
    renewed_ms,
)
from hub.api.handling.context import in_ms
from hub.api.inputs import Caller, Hub, Sent
from hub.api.operations import Subject, operation
from hub.api.shapes import parameters as p
from hub.api.shapes import reading as bodies
from hub.api.shapes.answer import Answer
from hub.api.shapes.bundle_bodies import BundleBody, BundleRenewBody
from hub.api.shapes.bundles import (
    BundleShape,
    RenewedBundleShape,
    RenewedSlotShape,
    ReturnedBundleShape,
)
from hub.capacity.models import LentBundle
from hub.capacity.wishes import BundleWish
from hub.errors import (
    LeaseOver,
    NotFound,
    NotHolder,
    Settling,
)
from hub.tokens.secrets import ADMIN, RUNNER

router = APIRouter(tags=["sessions"])
AskedBundle = Annotated[tuple[BundleWish, BundleBody], Depends(asked_bundle)]


@router.post(
    "/bundles",
    **operation(
        "borrowBundle",
        (RUNNER, ADMIN),
        p.KEY,
        *p.RUN,
        headers=("Correlation-Id",),
        refusals=OF_BORROWS,
        about=Subject("borrow", in_body=True),
        denied=denied,
        borrows=True,
    ),
)
async def borrow_all(request: Request, hub: LendingHub, caller: Caller, asked: AskedBundle) -> Answer[BundleShape]:
    """Borrow several slots at once: all are lent in one step, or none. While it waits, it holds none.

    Each slot has a lease of its own, which can be renewed, returned and lost like any other; with `together` one that
    is lost ends the others. Answers 404 `no-such-pool` at once where fewer slots are published than a part wants
    (`part`: its number, from 0), or where no node has all; with `waitForPool` it waits for them too. A bundle that has
    waited for `HUB_BUNDLE_PATIENCE_SECONDS` has free slots set aside for it, one bundle at a time.
    """
    wish, said = asked
    with counting(hub, caller, *wish.labels) as counted:
        caller.check_priority(said.priority)
        by = holder_of(request, caller, said)
        wanted = bundle_request(request, hub, wish, said, bodies.run_id(request, said.run_id), by)
        await follow(hub, wanted)
        found = await lend(hub, wanted, hub.bundles.borrow_all(wanted, lambda: hung_up(request)))
    await deliver(request, hub, caller, wanted, counted.started, *found.leases)
    counted.served.inc()
    return Answer(bundle_shape(hub, found), run=found.leases[0].run)


def bundle_shape(hub: Hub, found: LentBundle) -> BundleShape:
    """Return the body that answers the borrower of a bundle."""
    slots = [granted(hub, lease, None) for lease in found.leases]
    return BundleShape(bundle=found.id, together=found.together, slots=slots)


@router.post(
    "/bundles/{bundle}/renew",
    **operation(
        "renewBundle", (RUNNER, ADMIN), refusals=(NotFound, LeaseOver, NotHolder, Settling), borrows=True, routine=True
    ),
)
async def renew(hub: Hub, caller: Caller, said: Sent[BundleRenewBody], bundle: str) -> Answer[RenewedBundleShape]:
    """Extend the leases of a bundle that are live, each as `POST /session/renew` does. Answers 409 `grant-over` when
    none is live, and 403 `not-holder` to a caller that does not hold it."""
    found = await hub.bundles.renew(bundle, renewed_ms(hub, said.ttl_seconds, said.ttl_is_default), caller.by)
    slots = [
        RenewedSlotShape(
            slotId=each.slot,
            leaseToken=each.token,
            ttlSeconds=each.left_ms / 1000,
            expiresAtUtc=in_ms(hub, each.left_ms),
        )
        for each in found
    ]
    return Answer(RenewedBundleShape(bundle=bundle, slots=slots))


@router.post(
    "/bundles/{bundle}/return",
    **operation("returnBundle", (RUNNER, ADMIN), refusals=(NotFound, NotHolder, Settling), borrows=True),
)
async def give_back(hub: Hub, caller: Caller, bundle: str) -> Answer[ReturnedBundleShape]:
    """Give back all slots of a bundle that are still lent. Any number of repetitions is answered 200; an answer with a
    `note` says that the call changed nothing."""
    found = ReturnedBundleShape(bundle=bundle, returned=await hub.bundles.give_back(bundle, caller.by))
    if not found["returned"]:
        found["note"] = "already returned"
    return Answer(found)
