"""`hub why` and `hub events`: show what happened, by which rule, and what happens next."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Annotated, Any, Literal

import httpx
import typer

from hub.cli import completing, output, tables
from hub.cli.answers import CommandAnswer
from hub.cli.child import Signals
from hub.cli.command import command
from hub.cli.connection import Address, HubApi, listens
from hub.cli.inputs import read_id
from hub.cli.options import AsJson
from hub.cli.values import LABEL, NODE, RUN, SLOT, TASK, WORKER
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
_OWN = ("id", "at", "event", "rule")


@command("runner")
async def why(
    hub: HubApi,
    subject: Annotated[
        str,
        typer.Argument(
            parser=read_id,
            metavar="ID",
            help="A node, slot, ticket (or its Idempotency-Key), run, task, worker, a job by its full name, or a "
            "schedule as ROOM:NAME.",
            autocompletion=completing.anything,
        ),
    ],
    kind: Annotated[
        Kind | None, typer.Option(help="The kind of thing that ID names. Default: every kind that it may name.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Show at most the N latest events.")] = 20,
) -> CommandAnswer:
    """Explain the state of a node, slot, task, worker ...: what happened, by which rule, and what happens next."""
    return await _why(hub, subject, [kind] if kind else _kinds(subject), limit)


@command("runner")
async def worker(hub: HubApi, worker: Annotated[str, WORKER.argument("The id of the worker.")]) -> CommandAnswer:
    """Show a worker and explain its state."""
    return await _why(hub, worker, ["worker"], 20)


def _kinds(subject: str) -> list[Kind]:
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


@command("runner")
async def events(
    at: Address,
    follow: Annotated[bool, typer.Option("--follow", help="Follow new events, until Ctrl-C.")] = False,
    kind: Annotated[EventKind | None, typer.Option(help="Show only events of this kind.")] = None,
    node: Annotated[str | None, NODE.option("Show only events of this node.")] = None,
    slot: Annotated[str | None, SLOT.option("Show only events of this slot.")] = None,
    pool: Annotated[str | None, LABEL.option("Show only events of this pool or label.")] = None,
    run: Annotated[str | None, RUN.option("Show only events of this run.")] = None,
    worker: Annotated[str | None, WORKER.option("Show only events of this worker.")] = None,
    task: Annotated[str | None, TASK.option("Show only events of this task.")] = None,
    job: Annotated[
        str | None,
        typer.Option(
            parser=read_id, metavar="JOB", help="Show only events of this job.", autocompletion=completing.jobs
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Begin with the N latest events.")] = 20,
    as_json: AsJson = False,
) -> CommandAnswer | None:
    """Show the latest events, and follow new ones with --follow. With both --follow and --json each event is a line."""
    filters = {"kind": kind, "node": node, "slot": slot, "pool": pool, "run": run}
    filters |= {"worker": worker, "task": task, "job": job}
    which = {name: value for name, value in filters.items() if value is not None}
    return await _events(at, which, limit, as_json, follow=follow)


async def _events(
    at: Address, which: dict[str, str], limit: int, as_json: bool, *, follow: bool
) -> CommandAnswer | None:
    if follow and not await listens(at.url):
        raise HubUnavailable(f"No hub listens at {mask_url(at.url)}; only a running hub can be followed.")
    async with HubApi(at) as hub:
        since = await _newest(hub) if follow else None  # the stream begins here if no event is listed below
        newest = (await hub.get("history", limit=limit, **which)).get("events") or []
    if since is not None:
        await _follow(at, which, newest, since, as_json)
        return None
    return CommandAnswer({"events": newest}, "\n".join(map(_line, reversed(newest))) or "No events.")


async def _why(hub: HubApi, subject: str, kinds: list[Kind], limit: int) -> CommandAnswer:
    answers = [answer for kind in kinds if (answer := await _ask(hub, kind, subject, limit)) is not None]
    if not answers:
        raise NotFound(f"Nothing is known of a {' or a '.join(kinds)} {subject}")

    def show() -> None:
        for number, answer in enumerate(answers):
            if number:
                output.put("")
            _put_explanation(answer)

    return CommandAnswer(answers[0] if len(kinds) == 1 else {"found": answers}, show)


async def _ask(hub: HubApi, kind: Kind, subject: str, limit: int) -> dict[str, Any] | None:
    try:
        return await hub.get("why", kind, subject, limit=limit)
    except NotFound:
        return None


def _put_explanation(answer: dict[str, Any]) -> None:
    output.put(
        output.one_line(f"{answer.get('kind')} {answer.get('id')} is {answer.get('state')}: {answer.get('because')}")
    )
    facts = {name: value for name, value in (answer.get("facts") or {}).items() if value not in (None, [], "")}
    tables.put_facts((f"  {_words(name)}", _fact(value)) for name, value in facts.items())
    for step in answer.get("next") or ():
        left = step.get("inSeconds")
        when = "" if left is None else f" in {output.duration(left)}"
        output.put(output.one_line(f"next  {step.get('event')}{when}. {step.get('rule')}"))
    for event in answer.get("history") or ():
        output.put(_line(event))
    if not answer.get("complete"):
        output.put("(older events are not shown, or are no longer kept)")


async def _newest(hub: HubApi) -> str:
    """Return the id of the newest event, or "0", which is before all ids, when there is none."""
    newest = (await hub.get("history", limit=1)).get("events")
    return str(newest[0]["id"]) if newest else "0"


async def _follow(
    at: Address, which: dict[str, str], newest: Sequence[dict[str, Any]], since: str, as_json: bool
) -> None:
    """Print the newest events, and then each later one, until a signal."""
    task = asyncio.current_task()
    assert task is not None
    stream = Stream(at, which, newest[0]["id"] if newest else since)
    with Signals(lambda _: task.cancel()):
        try:
            for event in reversed(newest):
                _put(event, as_json)
            while True:
                try:
                    async for event in stream.read():
                        _put(event, as_json)
                except httpx.HTTPError as error:
                    output.note(f"the stream was cut ({error or type(error).__name__}); trying again.")
                await asyncio.sleep(_BACK_S)
        except asyncio.CancelledError:
            return


class Stream:
    """A stream of events from a hub. When it was cut off, `read` goes on after the last event."""

    def __init__(self, at: Address, which: dict[str, str], last: str) -> None:
        self._at = at
        self._which = which
        self._last = last

    async def read(self, begun: Callable[[], object] = bool) -> AsyncIterator[dict[str, Any]]:
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
                raise HubError(f"The hub at {mask_url(self._at.url)} refuses to be followed: {answer.status_code}.")
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


def _neutral(event: dict[str, Any]) -> dict[str, Any]:
    """Return an event of a stream with the names that events of a list have: the time is `at`, not `atUtc`."""
    return {"at" if name == "atUtc" else name: value for name, value in event.items()}


def _put(event: dict[str, Any], as_json: bool) -> None:
    output.put(output.json_text(event) if as_json else _line(event))


def _line(event: dict[str, Any]) -> str:
    facts = " ".join(f"{name}={_fact(value)}" for name, value in event.items() if name not in _OWN)
    when = str(event.get("at") or "")[:23]
    return output.one_line(f"{when:<23}  {event.get('event')}  {facts}  {event.get('rule') or ''}".rstrip())


def _words(name: str) -> str:
    """Return a name of the wire as words: `sinceBeatSeconds` as `since beat seconds`."""
    return "".join(f" {char.lower()}" if char.isupper() else char for char in name)


def _fact(value: Any) -> Any:
    if isinstance(value, list):
        return "; ".join(" ".join(_texts(each)) for each in value)
    return value


def _texts(value: Any) -> Iterable[str]:
    return [f"{name}={each}" for name, each in value.items()] if isinstance(value, dict) else [str(value)]
