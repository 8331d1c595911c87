"""The endpoints by which holders tell that they use their slots, so that idle rules end no lease in use."""

from __future__ import annotations

from fastapi import APIRouter, Request

from hub.api.inputs import Caller, Hub, Sent
from hub.api.operations import Subject, operation
from hub.api.realms.spilling import at_lender
from hub.api.shapes.answer import Answer
from hub.api.shapes.rule_bodies import ActivityBody, SlotPauseBody, UsedShape
from hub.capacity.lease_use import Used
from hub.errors import InvalidValue, LeaseOver, MissingMember, NotHolder, Settling
from hub.store.keys import key_part
from hub.tokens.secrets import ADMIN, RUNNER

router = APIRouter(tags=["sessions"])
_REFUSALS = (InvalidValue, MissingMember, LeaseOver, NotHolder, Settling)


@router.post(
    "/leases/{slot}/activity",
    **operation("tellActivity", (RUNNER, ADMIN), refusals=_REFUSALS, about=Subject("slot", "slot"), borrows=True),
)
async def activity(
    request: Request, hub: Hub, caller: Caller, said: Sent[ActivityBody], slot: str
) -> Answer[UsedShape]:
    """Tell that the slot of a lease is in use now. The lease is not extended: renew it as ever.

    Idle is no use, not no renewal. A lease whose holder has never told of use counts as used. Answers 409 `grant-over`
    when the lease has ended, and 403 `not-holder` to a caller that does not hold it.
    """
    return await _told(request, hub, slot, said.lease_token, caller.by, None)


@router.post(
    "/leases/{slot}/pause",
    **operation("pauseIdleRule", (RUNNER, ADMIN), refusals=_REFUSALS, about=Subject("slot", "slot"), borrows=True),
)
async def pause(request: Request, hub: Hub, caller: Caller, said: Sent[SlotPauseBody], slot: str) -> Answer[UsedShape]:
    """Let the slot of a lease count as used for a while, for a human at the keyboard; 0 seconds end that. It lasts at
    most up to the longest hold of the pool, or `HUB_MAX_SESSION_TTL_SECONDS`. The lease is not extended."""
    return await _told(request, hub, slot, said.lease_token, caller.by, int(said.seconds * 1000))


async def _told(request: Request, hub: Hub, slot: str, token: str, by: str, pause_ms: int | None) -> Answer[UsedShape]:
    part = key_part(slot.strip())

    async def tell(lending: Hub) -> Used:
        return await lending.use.tell(part, token, pause_ms, by)

    found = await at_lender(request, hub, part, token, tell)
    return Answer(
        UsedShape(
            browserId=slot,
            leaseToken=found.token,
            secondsLeft=found.left_ms / 1000,
            idleSeconds=found.idle_ms / 1000 if found.idle_ms else None,
            endsInSeconds=None if found.ends_ms is None else found.ends_ms / 1000,
            endsBy=found.why,
            pausedSeconds=found.paused_ms / 1000,
        )
    )
