"""The keys of bundles: several leases of one borrower that are made in one step, and tickets that wait for that."""

from __future__ import annotations

from hub.store.keys.key import Each, One, Section


class OfBundles(Section):
    title = "Bundles"
    owner = "hub/capacity/"

    bundle = Each(
        "hub:bundle:{bundle}", "hash", "slot -> number of the lease in the bundle, a bar, and its token",
        "a field with its lease",
    )  # fmt: skip
    bundles = One("hub:bundles", "zset", "tickets that wait for several slots at once", "a member while it waits")
    # Fields: ticket; node: key part of the node on which its slots are to be, '' for any; since_ms, and away_ms while
    # no call of its caller waits, on the hub clock; units:<label>: leases for which room is kept under the cap of the
    # label.
    reserver = One(
        "hub:reserver", "hash", "the ticket for which slots are set aside, its node, and since when",
        "until it has all, at most `HUB_BUNDLE_RESERVE_SECONDS`",
    )  # fmt: skip
    torn = One(
        "hub:torn", "list", "bundles of which a lease has ended with which the others are to end",
        "an entry until these have ended",
    )  # fmt: skip
    reserved = One("hub:reserved", "set", "slots that are set aside for it; each is held", "with the above")
