"""`hub why` and `hub events`: show what happened, by which rule, and what happens next."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Literal

import httpx
from typer import Option

from hub.cli import completing, output, tables
from hub.cli.answers import CommandAnswer
from hub.cli.child import interruptible
from hub.cli.command import command
from hub.cli.connection import Address, HubApi, Row, listens
from hub.cli.inputs import given, read_id
from hub.cli.options import AS_JSON, JOB, NODE, RUN, SLOT, STEM, TASK, WORKER, Input
from hub.client.trust import tls_context
from hub.errors import HubError, HubUnavailable, NotFound
from hub.jobs.names import parse_full_name, to_id
from hub.outgoing import async_client
from hub.settings import mask_url

Kind = Literal["node", "slot", "ticket", "run", "task", "worker", "job", "schedule"]
EventKind = Literal["node", "pool", "grant", "ticket", "worker", "job", "task", "schedule", "sweep"]

_KINDS: tuple[Kind, ...] = ("node", "slot", "ticket", "run")  # an id of any form may name these
_SILENCE_S = 45.0  # the hub sends something every 15 s
_BACK_S = 2.0
_OWN = ("id", "at", "event", "rule")  # the members of an event that are not shown as NAME=VALUE
_LIMIT = Option(20, min=1, max=1000, help="Show at most the N latest events.")


@command("ticket")
async def why(
    hub: HubApi,
    subject: str = Input("ID", read_id, completing.anything).argument(
        "A node, slot, ticket (or its Idempotency-Key), run, task, worker, a job by its full name, or a schedule as "
        "ROOM:NAME."
    ),
    kind: Kind | None = Option(None, help="The kind of thing that ID names. Default: every kind that it may name."),
    limit: int = _LIMIT,
) -> CommandAnswer:
    """Explain the state of a node, slot, task, worker ...: what happened, by which rule, and what happens next."""
    return await _why(hub, subject, [kind] if kind else kinds_of(subject), limit)


@command("ticket")
async def worker(hub: HubApi, worker: str = WORKER.argument("The id of the worker.")) -> CommandAnswer:
    """Show a worker and explain its state."""
    return await _why(hub, worker, ["worker"], 20)


@command("ticket")
async def slot(hub: HubApi, slot: str = SLOT.argument("The id of the slot.")) -> CommandAnswer:
    """Show a slot and explain its state."""
    return await _why(hub, slot, ["slot"], 20)


def kinds_of(subject: str) -> list[Kind]:
    """Return the kinds of things that an id of this form may name.

    Workers and tasks have UUIDs; the full name of a job has two colons, that of a schedule has one."""
    kinds = list(_KINDS)
    try:
        to_id(subject)
        kinds += ["task", "worker"]
    except ValueError:
        if parse_full_name(subject) is not None:
            kinds.append("job")
        elif subject.count(":") == 1:
            kinds.append("schedule")
    return kinds


@command("figures")
async def events(
    at: Address,
    follow: bool = Option(False, "--follow", help="Follow new events, until Ctrl-C."),
    kind: EventKind | None = Option(None, help="Show only events of this kind."),
    node: str | None = NODE.option("Show only events of this node."),
    slot: str | None = SLOT.option("Show only events of this slot."),
    pool: str | None = STEM.option("Show only events of this pool or label."),
    run: str | None = RUN.option("Show only events of this run."),
    worker: str | None = WORKER.option("Show only events of this worker."),
    task: str | None = TASK.option("Show only events of this task."),
    job: str | None = JOB._replace(read=read_id).option("Show only events of this job."),
    limit: int = _LIMIT,
    as_json: bool = AS_JSON,
) -> CommandAnswer | None:
    """Show the latest events, and follow new ones with --follow. With both --follow and --json each event is a line."""
    filters = given({"kind": kind, "node": node, "slot": slot, "pool": pool, "run": run})
    filters |= given({"worker": worker, "task": task, "job": job})
    if follow and not await listens(at.url):
        raise HubUnavailable(f"No hub listens at {mask_url(at.url)}; only a running hub can be followed.")
    async with HubApi(at) as hub:
        since = await _newest(hub) if follow else None  # the stream begins here if no event is listed below
        newest = (await hub.get("history", limit=limit, **filters)).get("events") or []
    if since is not None:
        stream = Stream(at, filters, newest[0]["id"] if newest else since)
        with interruptible():
            await _follow(stream, newest, as_json)
        return None
    return CommandAnswer({"events": newest}, "\n".join(map(_line, reversed(newest))) or "No events.")


async def _why(hub: HubApi, subject: str, kinds: list[Kind], limit: int) -> CommandAnswer:
    answers = [answer for kind in kinds if (answer := await explanation(hub, kind, subject, limit)) is not None]
    if not answers:
        raise NotFound(f"Nothing is known of a {' or a '.join(kinds)} {subject}")

    def show() -> None:
        for number, answer in enumerate(answers):
            if number:
                output.put("")
            _put_explanation(answer)

    return CommandAnswer(answers[0] if len(kinds) == 1 else {"found": answers}, show)


async def explanation(hub: HubApi, kind: Kind, subject: str, limit: int) -> Row | None:
    """Return the explanation of a thing of this kind; None when the hub knows no such thing."""
    try:
        return await hub.get("why", kind, subject, limit=limit)
    except NotFound:
        return None


def _put_explanation(answer: Row) -> None:
    output.put_line(f"{answer.get('kind')} {answer.get('id')} is {answer.get('state')}: {answer.get('because')}")
    facts = {name: value for name, value in (answer.get("facts") or {}).items() if value not in (None, [], "")}
    tables.put_facts((f"  {_words(name)}", _fact(value)) for name, value in facts.items())
    for step in answer.get("next") or ():
        left = step.get("inSeconds")
        when = "" if left is None else f" in {output.duration(left)}"
        output.put_line(f"next  {step.get('event')}{when}. {step.get('rule')}")
    for event in answer.get("history") or ():
        output.put(_line(event))
    if not answer.get("complete"):
        output.put("(older events are not shown, or are no longer kept)")


async def _newest(hub: HubApi) -> str:
    """Return the id of the newest event, or "0", which is before all ids, when there is none."""
    newest = (await hub.get("history", limit=1)).get("events")
    return str(newest[0]["id"]) if newest else "0"


async def _follow(stream: Stream, newest: Sequence[Row], as_json: bool) -> None:
    """Print the newest events, and then each later one."""
    for event in reversed(newest):
        _put(event, as_json)
    while True:
        try:
            async for event in stream.read():
                _put(event, as_json)
        except httpx.HTTPError as error:
            output.note(f"the stream was cut ({error or type(error).__name__}); trying again.")
        await asyncio.sleep(_BACK_S)


class Stream:
    """A stream of events from a hub. When it was cut off, `read` goes on after the last event."""

    def __init__(self, at: Address, which: dict[str, str], last: str) -> None:
        self._at = at
        self._which = which
        self._last = last

    async def read(self, begun: Callable[[], object] = bool) -> AsyncIterator[Row]:
        """Yield events until the hub ends the stream; call `begun` when it begins.

        Raises `httpx.HTTPError` when the stream is cut off, and `HubError` when the hub refuses it.
        """
        headers = {"x-hub-secret": self._at.secret, "last-event-id": self._last}
        timeout = httpx.Timeout(10.0, read=_SILENCE_S)
        async with (
            async_client(self._at.url, headers=headers, timeout=timeout, verify=tls_context()) as client,
            client.stream("GET", f"{self._at.url}/events", params=self._which) as answer,
        ):
            if answer.status_code in (400, 401, 404):
                raise HubError(f"The hub at {mask_url(self._at.url)} refuses its events: status {answer.status_code}.")
            answer.raise_for_status()
            begun()
            name = ""
            async for line in answer.aiter_lines():
                field, _, value = line.partition(":")
                value = value.removeprefix(" ")
                if field == "id":
                    self._last = value
                elif field == "event":
                    name = value
                elif field == "data":
                    yield {"event": name, **_neutral(json.loads(value))}


def _neutral(event: Row) -> Row:
    """Return an event of a stream with the names that events of a list have: the time is `at`, not `atUtc`."""
    return {"at" if name == "atUtc" else name: value for name, value in event.items()}


def _put(event: Row, as_json: bool) -> None:
    output.put(output.json_text(event) if as_json else _line(event))


def _line(event: Row) -> str:
    facts = " ".join(f"{name}={_fact(value)}" for name, value in event.items() if name not in _OWN)
    when = str(event.get("at") or "")[:23]
    return output.one_line(f"{when:<23}  {event.get('event')}  {facts}  {event.get('rule') or ''}".rstrip())


def _words(name: str) -> str:
    """Return a name of the wire as words: `sinceBeatSeconds` as `since beat seconds`."""
    return "".join(f" {char.lower()}" if char.isupper() else char for char in name)


def _fact(value: Any) -> Any:
    if isinstance(value, list):
        return "; ".join(output.pairs(item) if isinstance(item, dict) else str(item) for item in value)
    if isinstance(value, dict):
        return output.pairs({name: _fact(each) for name, each in value.items() if each is not None})
    return value
