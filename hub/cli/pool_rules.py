"""`hub pool rules`, `set` and `unset`: how long the slots of pools may be held and left unused."""

from __future__ import annotations

from collections.abc import Callable

from hub.cli import completing, output
from hub.cli.answers import CommandAnswer, Listing, time_of
from hub.cli.command import Work, command
from hub.cli.connection import HubApi, Row
from hub.cli.environment import caller
from hub.cli.inputs import Usage, reader, span
from hub.cli.options import Input
from hub.teams.models import read_pattern

_NONE = "none"
_PATTERN = Input("PATTERN", reader(read_pattern), completing.pools).argument(
    "Labels of pools, in quotes; * stands for any text, as in 'gpu:*'."
)


def _time(most_s: float, bounds: str) -> Callable[[str], float]:
    """Return a reader of durations as `span` has; `none`, which removes a member of a rule, is 0."""
    read = span(1, most_s, f"{bounds}, or {_NONE}")
    return lambda text: 0.0 if text.strip() == _NONE else read(text)


_LONG, _LENGTH = Input("TIME", _time(31_536_000, "1s to 365d")), Input("TIME", _time(86_400, "1s to 1d"))


@command("admin")
async def rules(hub: HubApi) -> CommandAnswer:
    """Show the rules of pools. For each pool the first that fits its label holds, alone."""
    answer = await hub.get("admin", "pools", "rules")

    def show() -> None:
        if answer["rules"]:
            _RULES.put(answer["rules"])
        else:
            output.put("No pool has a rule; hub pool set PATTERN makes one.")

    return CommandAnswer(answer, show)


@command("admin")
def set_rule(
    hub: HubApi,
    pattern: str = _PATTERN,
    max_hold: float | None = _LONG.option("A lease ends after this time, renewed or not, as 4h.", "--max-hold"),
    idle: float | None = _LONG.option("A lease ends after this time without use, as 30m.", "--idle"),
    ttl: float | None = _LENGTH.option("The length of leases whose borrowers name none, as 60s.", "--ttl"),
    warn: float | None = _LONG.option("How long before an end its holder is told. Default: 60s or less.", "--warn"),
) -> Work:
    """Change the rule of the pools that fit a pattern, for all hubs. The longest pattern that fits a pool wins.

    An option that is left out stays as it is; `none` removes it. The rule holds for leases from now on, and for live
    ones after their holders were told.
    """
    given = {"maxHoldSeconds": max_hold, "idleSeconds": idle, "ttlSeconds": ttl, "warnSeconds": warn}
    changes = {name: value or None for name, value in given.items() if value is not None}
    if not changes:
        raise Usage("Say what to change: --max-hold, --idle, --ttl or --warn.")
    return _set(hub, pattern, changes)


async def _set(hub: HubApi, pattern: str, changes: Row) -> CommandAnswer:
    rule = await hub.ask("PUT", "admin", "pools", pattern, "rules", body={**changes, "by": caller()})
    return CommandAnswer(rule, f"{output.one_line(pattern)}: {_sentence(rule)}.")


@command("admin")
async def unset(hub: HubApi, pattern: str = _PATTERN) -> CommandAnswer:
    """Remove the rule of a pattern, for all hubs."""
    answer = await hub.ask("DELETE", "admin", "pools", pattern, "rules")
    return CommandAnswer(answer, f"{output.one_line(pattern)} has no rule now.")


def _sentence(rule: Row) -> str:
    """Return what a rule says, in words."""
    words = {
        "maxHoldSeconds": "held for at most {}", "idleSeconds": "ended after {} unused", "ttlSeconds": "lent for {}",
    }  # fmt: skip
    said = [text.format(output.duration(rule[name])) for name, text in words.items() if rule.get(name)]
    told = f"; holders are told {output.duration(rule.get('warnSeconds'))} before" if said else ""
    return (", ".join(said) or "no rule") + told


def _or_none(member: str) -> Callable[[Row], str]:
    return lambda rule: output.duration(rule[member]) if rule.get(member) else _NONE


_RULES = Listing(
    "rules",
    {
        "PATTERN": "pattern", "MAX HOLD": _or_none("maxHoldSeconds"), "IDLE": _or_none("idleSeconds"),
        "TTL": _or_none("ttlSeconds"), "WARNING": _or_none("warnSeconds"), "SET BY": "setBy", "SET": time_of("setAt"),
    },
    expendable=("SET", "SET BY"),
)  # fmt: skip
