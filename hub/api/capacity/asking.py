"""What a borrow asks for, as its body and its headers say."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from fastapi import Request

from hub.api.inputs import UnreadBody, hub_of, unread_body_of
from hub.api.operations import takes
from hub.api.realms.spilling import where_else
from hub.api.shapes import reading as bodies
from hub.api.shapes.bundle_bodies import BundleBody, of_part
from hub.api.shapes.lease_bodies import BorrowBody, TermsBody, read_any_of
from hub.capacity.labels import Label, parse_kinds, parse_label
from hub.capacity.leases import KEEP_OWN_S, keep_key_s, new_attempt
from hub.capacity.models import BorrowRequest, LeaseHolder
from hub.capacity.where import parse
from hub.capacity.wishes import Alternative, BundlePart, BundleWish
from hub.core import Hub
from hub.errors import MissingMember
from hub.settings import Settings


class Wish(NamedTuple):
    """What a borrow asks for: the labels, the best first, its alternatives where it has them, and its body."""

    labels: tuple[str, ...]
    alternatives: tuple[Alternative, ...]
    sent: UnreadBody[BorrowBody]


@takes(body=BorrowBody)
async def asked(request: Request) -> Wish:
    """Return what a borrow asks for; raises `InvalidJson`, `MissingMember`, `InvalidValue`, `InvalidLabel` and
    `BadWhere`."""
    sent: UnreadBody[BorrowBody] = await unread_body_of(BorrowBody)(request)
    hub, document = hub_of(request), sent.document
    where, any_of = bodies.text(document, "where") or "", document.get("anyOf")
    given = bodies.text(document, "labelKey")
    if not given and (where or not any_of):
        raise MissingMember("missing labelKey", member="labelKey")
    if given and not where and not any_of:
        return Wish((asked_label(hub, given).text,), (), sent)
    found = [alternative(hub, given, where)] if given else []
    found += [alternative(hub, each.label_key, each.where) for each in read_any_of(any_of or [], "anyOf")]
    several = tuple({(each.label, each.want): each for each in found}.values())
    labels = tuple(dict.fromkeys(each.label for each in several))
    return Wish(labels, several if len(several) > 1 or several[0].want else (), sent)


def alternative(hub: Hub, label: str, where: str) -> Alternative:
    """Return what a borrow takes: a slot of a label that is as an expression says, '' for any. Raises `InvalidLabel`,
    and `BadWhere`. With an expression the label may have one segment, where pools with longer labels may serve it."""
    if not where.strip():
        return Alternative(asked_label(hub, label).text)
    least = 1 if hub.agreed.holds.prefix and label.strip() != "*" else 2
    name, demanded = asked_label(hub, label, least).text, parse(where)
    return Alternative(name, demanded.want, demanded.tree, demanded.text)


@takes(body=BundleBody)
async def asked_bundle(request: Request) -> tuple[BundleWish, BundleBody]:
    """Return what a bundle asks for, and its body; raises as `asked` does."""
    said = BundleBody.read(await bodies.read_body(request))
    parts = []
    for number, each in enumerate(said.parts):
        with of_part(number):
            parts.append(BundlePart(*alternative(hub_of(request), each.label_key, each.where), each.count))
    return BundleWish(tuple(parts), said.same_node, said.together), said


def asked_label(hub: Hub, text: str, least: int = 2) -> Label:
    """Return the label that a borrower asks for, which has at least so many segments and may have wildcards; raises
    `InvalidLabel`."""
    kinds, wildcards = parse_kinds(hub.settings.label_kinds), hub.agreed.holds.wildcards
    return parse_label(text, kinds, wildcards=wildcards, segments_min=least)


def borrow_request(
    request: Request, hub: Hub, wish: Wish, said: BorrowBody, run: str, by: LeaseHolder
) -> BorrowRequest:
    """Return the borrow that a body asks for, of a run and by a holder."""
    elsewhere, home_s = where_else(request, hub, said.realms)
    several, more = wish.alternatives, ""
    if several or said.prefer:
        more = f"\0where\0{[each[:2] for each in several]}\0{said.prefer}"
    wanted = _on_terms(request, hub, wish.labels[0], said, run, by, more)
    return wanted._replace(
        # A borrow that other realms may serve waits, however long the queue of this realm is.
        limit_ms=-1 if elsewhere else wanted.limit_ms,
        elsewhere=elsewhere,
        home_ms=int(home_s * 1000),
        alternatives=several,
        prefer=said.prefer,
    )


def bundle_request(
    request: Request, hub: Hub, wish: BundleWish, said: BundleBody, run: str, by: LeaseHolder
) -> BorrowRequest:
    """Return the borrow of several slots that a body asks for, of a run and by a holder."""
    rows = [(part.label, part.want, part.number) for part in wish.parts]
    more = f"\0bundle\0{rows}\0{wish.same_node}\0{wish.together}"
    wanted = _on_terms(request, hub, wish.parts[0].label, said, run, by, more)
    return wanted._replace(bundle=wish.text, hopes=said.wait_for_pool)


def _on_terms(
    request: Request, hub: Hub, label: str, said: TermsBody, run: str, by: LeaseHolder, more: str
) -> BorrowRequest:
    """Return a borrow of one slot on the terms in a body. `more`: what else a repeat under its key must ask for."""
    settings = hub.settings
    ttl_s = settings.borrow_ttl_s if said.ttl_seconds is None else said.ttl_seconds
    ttl_s = min(max(ttl_s, settings.borrow_ttl_min_s), 86_400, settings.max_session_ttl_s)
    is_default = said.ttl_seconds is None or said.ttl_is_default
    key, attempt = bodies.request_key(request), new_attempt(settings.realm)
    whole = f"{label}\0{ttl_s}\0{run}" + (f"\0{by.user_id}" if by.user_id else "") + more
    wait_s, limit_s = longest_wait_s(settings), said.max_wait_seconds
    return BorrowRequest(
        label=label,
        ttl_ms=int(ttl_s * 1000) * (-1 if is_default else 1),
        run=run or bodies.new_run_id(hub.store.wall_s()),
        request=key or attempt,
        attempt=attempt,
        fingerprint=hashlib.sha256(whole.encode()).hexdigest()[:16],
        keep_s=keep_key_s(settings, int(ttl_s * 1000)) if key else KEEP_OWN_S,
        keyed=key is not None,
        priority=said.priority,
        wait_ms=int(1000 * (wait_s if limit_s is None else min(limit_s, wait_s))),
        limit_ms=-1 if limit_s is None else int(limit_s * 1000),
        holder=by.text,
    )


def longest_wait_s(settings: Settings) -> float:
    """Return for how many seconds a call may wait in the queue. The wait must end before the time limit of the
    request."""
    return min(settings.borrow_queue_timeout_s, settings.request_timeout_s * 0.95)
