"""`hub status`: shows the state of the fleet as one sentence and some figures."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

from hub.cli import global_options, output, tables, usage
from hub.cli.all_realms import each_realm
from hub.cli.answers import CommandAnswer
from hub.cli.command import command
from hub.cli.connection import HubApi
from hub.errors import HubError

_CODES: Final = {"warning": 3, "critical": 4}  # 1 and 2 are for failures


@command(every_realm=True)
async def status(hub: HubApi) -> CommandAnswer:
    """Show the state of the fleet and every trouble. Exit codes: 0 no trouble, 3 a warning, 4 a critical trouble."""
    if global_options.realm() == global_options.ALL:
        return await _status_of_all(hub)
    overview = await hub.get("console", "overview")
    holders: list[dict[str, Any]] = []
    if not global_options.is_given(global_options.JSON):
        with suppress(HubError):  # a hub of an earlier version has no such operation
            holders = (await hub.get("console", "usage"))["holders"]

    def show() -> None:
        output.put(output.one_line(str(overview.get("sentence"))))
        for trouble in overview.get("troubles") or ():
            sentence = f"{trouble.get('level')}: {trouble.get('title')}. {trouble.get('text')}"
            output.put(f"  {output.one_line(sentence)}")  # it may have names that users chose
        tables.put_facts(_facts(overview, holders))

    return CommandAnswer(overview, show, code=_code(overview))


async def _status_of_all(hub: HubApi) -> CommandAnswer:
    """Return the answer with a line for each realm: its state, or the reason why it does not answer."""
    parts = await each_realm(hub, lambda realm: realm.get("console", "overview"))
    rows = [(part.realm, output.one_line(str((part.answer or {}).get("sentence") or part.error))) for part in parts]
    document = {"realms": [part.facts() | {"status": part.answer} for part in parts]}
    code = max((_code(part.answer) for part in parts), default=0)
    return CommandAnswer(document, lambda: tables.put_table(("REALM", "HOW IT IS"), rows), code=code)


def _code(overview: dict[str, Any] | None) -> int:
    """Return the exit code for the worst trouble of a realm, 0 without one; no answer (None) counts as critical."""
    if overview is None:
        return _CODES["critical"]
    return max((_CODES.get(str(each.get("level")), 0) for each in overview.get("troubles") or ()), default=0)


def _facts(overview: dict[str, Any], holders: list[dict[str, Any]]) -> Iterable[tuple[str, Any]]:
    nodes, slots, queue, tasks = (overview.get(name) or {} for name in ("nodes", "slots", "queue", "tasks"))
    yield (
        "NODES",
        (
            f"{nodes.get('alive')} alive, {nodes.get('suspect')} suspect, {nodes.get('silent')} silent, "
            f"{nodes.get('draining')} held back by an operator; {nodes.get('registered')} registered"
        ),
    )
    yield "SLOTS", f"{slots.get('lent')} lent, {slots.get('free')} free, {slots.get('heldBack')} held back"
    longest = (
        "" if queue.get("oldestSeconds") is None else f", the longest for {output.duration(queue['oldestSeconds'])}"
    )
    yield "QUEUE", f"{queue.get('waiting')} waiting{longest}"
    yield (
        "TASKS",
        (
            f"{tasks.get('pending')} pending, {output.plural(tasks.get('dead'), 'dead letter')}, "
            f"{output.plural(tasks.get('workers'), 'worker')}"
        ),
    )
    for source in overview.get("stuck") or ():
        yield ("RECORDS", f"{output.one_line(str(source.get('name')))}: {_stuck(source)}, {source.get('level')}")
    yield "STORE", usage.memory(overview.get("store") or {}) + usage.most_held(holders)
    yield "HUBS", overview.get("hubs")


def _stuck(source: dict[str, Any]) -> str:
    if source.get("stuck") is not None:
        return f"{source['stuck']} stuck"
    return "no pass yet" if source.get("found") is None else f"{source['found']} stuck at the last pass"
