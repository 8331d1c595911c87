"""Long polls that tell holders at once that a lease has ended, and nodes that their orders have changed."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import APIRouter, Request

from hub.api.callers.admission import admit_again
from hub.api.capacity.nodes import OwnNode
from hub.api.handling import long_polls
from hub.api.handling.context import is_gone
from hub.api.inputs import Hub, Query, Sent, Serving, Wait
from hub.api.operations import TOKEN, Subject, operation
from hub.api.realms.spilling import watched
from hub.api.shapes import parameters as p
from hub.api.shapes.answer import Answer
from hub.api.shapes.hold_bodies import NUMBER_MAX
from hub.api.shapes.lease_bodies import WatchBody
from hub.api.shapes.leases import EndedLeaseShape, EndingLeaseShape, UnwellLeaseShape, WatchedShape
from hub.api.shapes.nodes import OrdersVersionShape
from hub.api.shapes.readers import whole_number
from hub.capacity.holds import Hold
from hub.capacity.lease_use import Limits
from hub.capacity.models import EndedLease
from hub.capacity.watching import Heard
from hub.errors import Forbidden, InvalidValue, UnknownNode
from hub.store.keys import key_part
from hub.tokens.secrets import ADMIN, NODE, RUNNER

router = APIRouter()


@router.post(
    "/leases/watch",
    tags=["sessions"],
    **operation("watchLeases", (RUNNER, ADMIN), about=Subject("leases", in_body=True), bound="leases", borrows=True),
)
async def watch(request: Request, serving: Serving, said: Sent[WatchBody]) -> Answer[WatchedShape]:
    """Wait until one of these leases is over: its node died, an operator ended it, or a drain did.

    Answers `over`, the leases that have ended with a reason each, as soon as there is one; empty after `waitSeconds`
    (at most 30; 0 asks without waiting). A slot whose lease ended early is lent again when its holder has returned it,
    at the latest after `HUB_REVOKE_GRACE_SECONDS`. A holder that listens here, stops and returns the slot never uses it
    together with the next holder.

    With `unwell` it answers also once the slot of a lease is held because it is unwell, or is well again; that lease
    goes on. With `ending` also once a lease is about to end by a rule of its pool, or no longer is.
    """
    hub = serving.hub
    leases = [(key_part(slot), token) for slot, token in said.leases]

    async def nobody_listens() -> bool:
        return serving.stopping or await is_gone(request)

    limit_s = min(said.wait_seconds, hub.settings.request_timeout_s * 0.9)
    heard = Heard(_by_slot(said.unwell), _by_slot(said.ending))
    found = await watched(request, hub, leases, limit_s, nobody_listens, heard)
    await admit_again(request)
    answer = WatchedShape(over=[_shown(each) for each in found.over])
    if heard.unwell is not None:
        answer["unwell"] = [_unwell(*each) for each in found.unwell]
    if heard.ending is not None:
        answer["ending"] = [_ending(*each) for each in found.ending]
    return Answer(answer)


def _by_slot(heard: Mapping[str, str] | None) -> dict[str, str] | None:
    return None if heard is None else {key_part(slot): text for slot, text in heard.items()}


def _ending(slot: str, token: str, limits: Limits) -> EndingLeaseShape:
    return EndingLeaseShape(
        browserId=slot,
        leaseToken=token,
        reason=limits.told_why,  # type: ignore[typeddict-item]
        end=limits.told,
        secondsLeft=limits.told_left_ms / 1000,
    )


def _unwell(slot: str, token: str, hold: Hold) -> UnwellLeaseShape:
    shown = UnwellLeaseShape(browserId=slot, leaseToken=token, reason=hold.reason)
    if hold.reason:
        shown["heldBy"] = hold.by
    return shown


def _shown(ended: EndedLease) -> EndedLeaseShape:
    slot, token, word, because = ended
    shown = EndedLeaseShape(browserId=slot, leaseToken=token, reason=word)
    if because:
        shown["because"] = because
    return shown


@router.get(
    "/nodes/{node_id:path}/orders",
    tags=["nodes"],
    **operation(
        "watchOrders",
        (NODE, TOKEN),
        p.SINCE_VERSION,
        headers=("Preference-Applied",),
        refusals=(InvalidValue, Forbidden, UnknownNode),
    ),
)
async def orders(request: Request, hub: Hub, node: OwnNode, query: Query, wait: Wait) -> Answer[OrdersVersionShape]:
    """Return the version of the orders to a node; with `Prefer: wait=N` as soon as it differs from `since`, or after N
    seconds.

    The version changes with each lease of the node that begins or ends, with drains, and with slots that are to be
    replaced. The orders themselves are in the answer to a heartbeat, which the node may send at once, before the next
    one is due.
    """
    since = whole_number(query.get("since", "0"), "since", 0, NUMBER_MAX)
    wait_s = min(wait, hub.settings.long_poll_max_wait_s)

    async def look(seconds: float) -> int:
        return await hub.nodes.version(node, since, seconds)

    version = await long_polls.wait(request, wait_s, look, lambda found: found != since)
    await admit_again(request)  # the node's token may have been revoked during the wait
    answer = Answer(OrdersVersionShape(nodeId=node, version=version))
    answer.headers["preference-applied"] = f"wait={wait_s:g}"
    return answer
