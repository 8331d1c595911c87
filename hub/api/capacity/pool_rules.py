"""The endpoints of the rules of pools: list them, look at one, change and remove it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request

from hub.api.inputs import Audit, Hub, Sent, hub_of
from hub.api.operations import operation
from hub.api.shapes.answer import Answer
from hub.api.shapes.rule_bodies import RuleBody, RuleRemovedShape, RuleShape, RulesShape
from hub.capacity.pool_rules import NoSuchRule, PoolRule, check_pattern
from hub.errors import BadInput, InvalidValue, MissingMember
from hub.tokens.secrets import ADMIN

router = APIRouter(tags=["admin"])


def _pattern(request: Request) -> str:
    """Return the pattern in the path; raises `InvalidValue`."""
    hub_of(request)  # raises for a request that was not let in
    return check_pattern(request.path_params["pattern"])


Pattern = Annotated[str, Depends(_pattern)]


@router.get("/admin/pools/rules", **operation("listPoolRules", (ADMIN,)))
async def rules(hub: Hub) -> Answer[RulesShape]:
    """Return the rules of pools, the longest pattern first. Of several rules that fit the label of a pool the first
    holds, alone."""
    return Answer(RulesShape(rules=[_shown(rule) for rule in await hub.rules.all()]))


@router.get(
    "/admin/pools/{pattern:path}/rules", **operation("getPoolRule", (ADMIN,), refusals=(InvalidValue, NoSuchRule))
)
async def rule(hub: Hub, pattern: Pattern) -> Answer[RuleShape]:
    """Return the rule with exactly this pattern."""
    return Answer(_shown(await hub.rules.find(pattern)))


@router.put(
    "/admin/pools/{pattern:path}/rules",
    **operation("setPoolRule", (ADMIN,), refusals=(InvalidValue, MissingMember, BadInput)),
)
async def set_rule(hub: Hub, pattern: Pattern, said: Sent[RuleBody], audit: Audit) -> Answer[RuleShape]:
    """Change the rule of the pools whose label fits a pattern, in which `*` stands for any text, for all hubs.

    It holds for leases from then on. Live ones get it with the next sweep of leases, and end no earlier than
    `warnSeconds` after that. A rule without maxHoldSeconds, idleSeconds and ttlSeconds is removed.
    """
    changes, by = said.changes(), audit.name(said.by)
    found = await hub.rules.change(pattern, changes, by)
    if found is None:
        await audit.write("admin", "pool.rule.remove", actor=by, pattern=pattern)
        found = PoolRule(pattern, None, None, None, 0, by, "")
    else:
        await audit.write("admin", "pool.rule.set", actor=by, pattern=pattern, **_facts(found))
    return Answer(_shown(found))


@router.delete("/admin/pools/{pattern:path}/rules", **operation("removePoolRule", (ADMIN,), refusals=(InvalidValue,)))
async def remove_rule(hub: Hub, pattern: Pattern, audit: Audit) -> Answer[RuleRemovedShape]:
    """Remove the rule of a pattern, for all hubs; live leases lose its limits with the next sweep of leases."""
    by = audit.name("")
    await hub.rules.change(pattern, dict.fromkeys(("hold", "idle", "ttl", "warn")), by)
    await audit.write("admin", "pool.rule.remove", actor=by, pattern=pattern)
    return Answer(RuleRemovedShape(removed=pattern))


def _facts(rule: PoolRule) -> dict[str, str]:
    """Return the members that a rule has, for the audit log."""
    return {name: f"{value:g}" for name, value in _shown(rule).items() if isinstance(value, float)}


def _shown(rule: PoolRule) -> RuleShape:
    return RuleShape(
        pattern=rule.pattern,
        maxHoldSeconds=_seconds(rule.max_hold_ms),
        idleSeconds=_seconds(rule.idle_ms),
        ttlSeconds=_seconds(rule.ttl_ms),
        warnSeconds=rule.warn_ms / 1000,
        setBy=rule.by,
        setAtUtc=rule.at,
    )


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000
