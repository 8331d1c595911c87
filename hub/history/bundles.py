"""The explanation of a bundle that waits: what there is of each part, which cap is too small, and for whom slots are
set aside."""

from __future__ import annotations

from collections import Counter
from typing import Any

import orjson

from hub.capacity.bundles import Reserver
from hub.capacity.where import parse, suits
from hub.capacity.wishes import BundlePart, BundleWish
from hub.core import Hub
from hub.history.caps import cap_of, capped_by
from hub.history.explained import NextStep, Now, seconds
from hub.history.wants import is_of, shown

POOLS_MAX = 1000  # pools that are looked at


async def bundle_now(hub: Hub, ticket: str, wish: BundleWish, facts: dict[str, Any], over: NextStep) -> Now:
    """Return how a bundle is that waits. `facts`: what holds for every ticket; `over`: the end of its wait."""
    rows = [await part_now(hub, part) for part in wish.parts]
    reserver = await hub.bundles.reserver()
    facts |= {"parts": rows, "sameNode": wish.same_node, "reserver": reserver.ticket or None}
    before = facts["position"] - 1
    many = "bundle waits" if before == 1 else "bundles wait"
    why = [f"{before} {many} before it" if before else "It is the first of the bundles"]
    why += [said_of(part, row) for part, row in zip(wish.parts, rows, strict=True)]
    why += await caps_on(hub, wish)
    if reserver.ticket == ticket:
        facts["setAside"] = reserver.aside
        why.append(set_aside(reserver, wish.size))
    elif reserver.ticket:
        why.append(f"slots are set aside for {reserver.ticket}")
    rule = (
        f"When all of it is free at once{' on one node' * wish.same_node}. A slot that becomes free goes to the bundle "
        "for which slots are set aside, else to one who wants one slot, else to a bundle that it completes."
    )
    steps = [NextStep("grant.handed", rule)]
    if not reserver.ticket:
        patience = seconds(1000 * hub.settings.bundle_patience_s)
        rule = f"When it is the oldest that can be served and has waited for {patience} (HUB_BUNDLE_PATIENCE_SECONDS)."
        steps.append(NextStep("ticket.reserves", rule))
    return Now("waiting", "; ".join(why) + ".", facts, (*steps, over))


async def part_now(hub: Hub, part: BundlePart) -> dict[str, Any]:
    """Return what there is of a part, free and published."""
    if part.where:
        tree = orjson.loads(parse(part.where).tree)
        classes = await hub.pools.classes(part.label)
        found = [(each.slots, each.free) for each in classes if suits(tree, each.attributes)]
    else:
        _, labels = await hub.pools.labels(0, POOLS_MAX)
        pools = await hub.pools.describe([each for each in labels if is_of(each, part.label, hub.agreed.holds)])
        found = [(pool.published, 0 if pool.maintenance else pool.free) for pool in pools]
    published, free = (sum(each) for each in zip(*found, strict=True)) if found else (0, 0)
    return {"label": part.label, "where": part.where, "wanted": part.number, "free": free, "published": published}


def said_of(part: BundlePart, row: dict[str, Any]) -> str:
    """Return what there is of a part in words; `row` is as of `part_now`."""
    return f"{shown(part.each)}: {part.number} wanted, {row['free']} free, {row['published']} published"


def set_aside(reserver: Reserver, size: int) -> str:
    """Return how many of the slots of the reserver are set aside, in words."""
    return f"{reserver.aside} of {size} are set aside for it" + (" on one node" if reserver.node else "")


async def caps_on(hub: Hub, wish: BundleWish) -> list[str]:
    """Return a sentence for each cap that keeps a bundle from being served."""
    wanted: Counter[str] = Counter()
    for part in wish.parts:
        wanted[part.label] += part.number
    found = []
    for label, number in wanted.items():
        cap, live = await cap_of(hub, label)
        if cap and number > cap:
            found.append(f"the cap of {label} allows {cap} leases, so it is never served as things are (hub caps)")
        elif cap and live + number > cap:
            found.append(f"{live} of {cap} leases that the cap of {label} allows are live")
        elif why := await capped_by(hub, label, 0, 0):
            found.append(why[0])
    return found
