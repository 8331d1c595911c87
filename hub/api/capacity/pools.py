"""The endpoints for pools: list the pools, look at one pool, and have all slots of a pool replaced."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import APIRouter

from hub.api.capacity.likeness import counted
from hub.api.capacity.nodes import shown as shown_node
from hub.api.handling.context import in_ms
from hub.api.inputs import Audit, Hub, Page, Search
from hub.api.operations import operation
from hub.api.shapes.answer import Answer
from hub.api.shapes.attributes import AttributesOfPoolShape
from hub.api.shapes.nodes import (
    CountsOfPoolShape,
    NodeOfPoolsShape,
    PoolShape,
    PoolsShape,
    RestartedShape,
    RestartShape,
)
from hub.capacity.labels import Label, parse_label
from hub.capacity.pools import CLASSES_MAX, Pool
from hub.errors import InvalidLabel, NotFound
from hub.tokens.secrets import ADMIN, NODE, RUNNER

router = APIRouter(tags=["pools"])
WORKERS_MAX = 100  # nodes shown beside the pools; the whole list is at /nodes
_COMPANIONS = ("target", "since", "snap_avail", "snap_inuse")  # first segments that give a pool another one's keys


@router.get("/pools", **operation("listPools", (RUNNER, ADMIN, NODE), shared=True, borrows=True))
async def pools(hub: Hub, page: Page, text: Search) -> Answer[PoolsShape]:
    """Return the state of the pools by label (a page of all, or of those whose label contains `q`), and of the first
    nodes."""
    return Answer(await state(hub, *page, text))


async def state(hub: Hub, offset: int, limit: int, text: str = "") -> PoolsShape:
    """Return a page of pools, the first hundred nodes, and the time of the store."""
    total, labels = await hub.pools.labels(offset, limit, text)
    found = [pool for pool in await hub.pools.describe(labels) if hub.pools.usable(pool.label)]
    versions = await hub.pools.versions([pool.label for pool in found])
    causes = await hub.holds.causes() if any(pool.held for pool in found) else {}
    return PoolsShape(
        total=total,
        pools=[_shown(pool, version, causes) for pool, version in zip(found, versions, strict=True)],
        workers=await _workers(hub),
        now=in_ms(hub, 0),
    )


async def _workers(hub: Hub) -> list[NodeOfPoolsShape]:
    _, ids, _ = await hub.nodes.page("0", WORKERS_MAX)
    workers = []
    for node in await hub.nodes.describe(ids[:WORKERS_MAX]):
        counts: dict[str, CountsOfPoolShape] = {}
        for _, label, place in await hub.nodes.slots(node.id):
            count = counts.setdefault(label, CountsOfPoolShape(total=0, borrowed=0))
            count["total"] += 1
            count["borrowed"] += place == "lent"
        said = shown_node(node)
        version, expected, differs = await hub.nodes.versions(node.id)
        workers.append(
            NodeOfPoolsShape(
                id=node.id,
                labels=[f"{name}={value}" for name, value in said["labels"].items() if str(value).strip()],
                lastSeen=node.last_seen,
                pools=counts,
                totalBrowsers=said["capacity"] or 0,
                playwrightVersion=version,
                playwrightVersionExpected=expected,
                playwrightVersionMismatch=differs,
            )
        )
    return workers


@router.get(
    "/pools/{label:path}/attributes",
    **operation("getPoolAttributes", (RUNNER, ADMIN, NODE), refusals=(InvalidLabel,), borrows=True),
)
async def attributes(hub: Hub, label: str) -> Answer[AttributesOfPoolShape]:
    """Return which attributes the slots have that may serve a label, of one segment too: the names that `where` may
    use, with the types of their values, and how many slots have each value."""
    asked = parse_label(label, segments_min=1).text
    found = await hub.pools.classes(asked)
    answer = AttributesOfPoolShape(
        label=asked,
        slots=sum(each.slots for each in found),
        attributes=counted(found),
        truncated=len(found) >= CLASSES_MAX,
    )
    if not found and (hint := await hub.hints.of(asked)):
        answer["hint"] = hint
    return Answer(answer)


@router.get(
    "/pools/{label:path}",
    **operation("getPool", (RUNNER, ADMIN, NODE), refusals=(InvalidLabel, NotFound), borrows=True),
)
async def pool(hub: Hub, label: str) -> Answer[PoolShape]:
    """Return the counts of one pool; 404 when it has no slots."""
    (found,) = await hub.pools.describe([parse_label(label).text])
    if not (found.published or found.free or found.lent):
        raise NotFound(f"pool {found.label} has no slots")
    (version,) = await hub.pools.versions([found.label])
    return Answer(_shown(found, version, await hub.holds.causes() if found.held else {}))


def _shown(pool: Pool, version: str | None, causes: Mapping[str, Mapping[str, int]]) -> PoolShape:
    shown = PoolShape(
        label=pool.label,
        total=pool.published,
        borrowed=pool.lent,
        available=pool.free,
        heldBack=pool.held,
        browserVersion=version,
        maintenanceActive=pool.maintenance,
    )
    if pool.held and pool.label in causes:
        shown["heldBackBy"] = dict(causes[pool.label])
    return shown


@router.post(
    "/admin/pools/{label:path}/restart", **operation("restartPool", (ADMIN,), refusals=(InvalidLabel, NotFound))
)
async def restart(hub: Hub, label: str, audit: Audit) -> Answer[RestartedShape]:
    """Have every slot of a pool replaced by its node. No slot of the pool is lent until all are replaced, at most 30
    minutes."""
    parsed = _restartable(label)
    marked, free, lent = await hub.pools.restart(parsed.text)
    facts = {"scheduled": marked, "avail": free, "inuse": lent}
    await audit.write("admin", "pool.restart", actor="dashboard", labelKey=parsed.text, **facts)
    maintenance = RestartShape(active=True, target=free + lent, avail=free, inuse=lent)
    return Answer(RestartedShape(labelKey=parsed.text, scheduled=marked, maintenance=maintenance))


def _restartable(label: str) -> Label:
    parsed = parse_label(label)
    if parsed.segments[0] in _COMPANIONS:
        raise InvalidLabel(f"invalid labelKey: pools that begin with {parsed.segments[0]} cannot be restarted")
    return parsed
