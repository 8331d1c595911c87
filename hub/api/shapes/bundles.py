"""The answers about bundles: several slots that are lent at once, all or none."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from typing_extensions import TypedDict

from hub.api.shapes import fields as w
from hub.api.shapes.fields import doc
from hub.api.shapes.leases import GrantShape

BundleId = Annotated[str, doc("The id of the bundle.", w.BUNDLE)]
Together = Annotated[bool, doc("Whether one slot that is lost ends the others.", False)]


class BundleShape(TypedDict):
    """Several leases that were made at once."""

    bundle: BundleId
    together: Together
    slots: Annotated[list[GrantShape], doc("The slots in the order of the parts, each with a lease of its own.", [])]


class GrantedBundleShape(BundleShape):
    """A bundle that has got its slots."""

    ticket: w.TicketId
    state: Annotated[Literal["granted"], doc("It has its slots.", "granted")]


class RenewedSlotShape(TypedDict):
    """A lease of a bundle that was extended."""

    slotId: w.SlotId
    leaseToken: w.LeaseToken
    ttlSeconds: Annotated[float, doc("In how many seconds it lapses.", 60.0)]
    expiresAtUtc: Annotated[str, doc("When that is.", w.TIME, json_schema_extra=w.DATE_TIME)]


class RenewedBundleShape(TypedDict):
    """The leases of a bundle that were extended: those that are live."""

    bundle: BundleId
    slots: Annotated[list[RenewedSlotShape], doc("They, in the order of the parts.", [])]


class ReturnedBundleShape(TypedDict):
    """The confirmation that a bundle was given back."""

    bundle: BundleId
    returned: Annotated[list[str], doc("The slots whose leases this call has ended.", [w.SLOT])]
    note: NotRequired[w.Note]
