"""`hub why` and `hub events`: what happened, by which rule, and what happens next."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Annotated, Any, Literal

import httpx
import typer

from hub.cli import completing, output, tables
from hub.cli.child import Signals
from hub.cli.connection import Address, HubApi, address, connect, listens, plain_logs
from hub.cli.inputs import read_id, read_label
from hub.cli.job_inputs import read_uuid
from hub.cli.options import AsJson, Secret, Url
from hub.client.trust import tls_context
from hub.errors import HubError, HubUnavailable, NotFound
from hub.jobs.names import parse_full_name, to_id
from hub.outgoing import async_client
from hub.settings import mask_url

Kind = Literal["node", "slot", "ticket", "run", "task", "worker", "job", "schedule"]
EventKind = Literal["node", "pool", "grant", "ticket", "worker", "job", "task", "schedule", "sweep"]

_KINDS: tuple[Kind, ...] = ("node", "slot", "ticket", "run")  # those that an id of any form may name
_SILENCE_S = 45.0  # the hub says something every 15 s
_BACK_S = 2.0
_OWN = ("id", "at", "event", "rule")


def why(
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
    kind: Annotated[Kind | None, typer.Option(help="What ID names; else all that it may name.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Events shown at most, the latest.")] = 20,
    as_json: AsJson = False,
    url: Url = None,
    secret: Secret = None,
) -> None:
    """Say why a node, a slot, a task, a worker ... is as it is: what happened, by which rule, and what happens next."""
    plain_logs()
    asyncio.run(_why(address(url, secret, "runner"), subject, [kind] if kind else _kinds(subject), limit, as_json))


def worker(
    worker: Annotated[
        str,
        typer.Argument(
            parser=read_uuid, metavar="WORKER", help="The id of the worker.", autocompletion=completing.workers
        ),
    ],
    as_json: AsJson = False,
    url: Url = None,
    secret: Secret = None,
) -> None:
    """Show a worker, and why it is as it is."""
    plain_logs()
    asyncio.run(_why(address(url, secret, "runner"), worker, ["worker"], 20, as_json))


def _kinds(subject: str) -> list[Kind]:
    """What an id may name, by its form: workers and tasks have UUIDs, the full name of a job has two colons, that of a
    schedule has one."""
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


def events(
    follow: Annotated[bool, typer.Option("--follow", help="Go on with what happens, until Ctrl-C.")] = False,
    kind: Annotated[EventKind | None, typer.Option(help="Only events of this kind.")] = None,
    node: Annotated[
        str | None,
        typer.Option(parser=read_id, metavar="NODE", help="Only about this node.", autocompletion=completing.nodes),
    ] = None,
    slot: Annotated[
        str | None,
        typer.Option(parser=read_id, metavar="SLOT", help="Only about this slot.", autocompletion=completing.slots),
    ] = None,
    pool: Annotated[
        str | None,
        typer.Option(
            parser=read_label, metavar="LABEL", help="Of this pool or label.", autocompletion=completing.pools
        ),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(parser=read_id, metavar="RUN", help="Only about this run.", autocompletion=completing.runs),
    ] = None,
    worker: Annotated[
        str | None,
        typer.Option(parser=read_uuid, metavar="ID", help="Only about this worker.", autocompletion=completing.workers),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(parser=read_uuid, metavar="ID", help="Only about this task.", autocompletion=completing.tasks),
    ] = None,
    job: Annotated[
        str | None,
        typer.Option(parser=read_id, metavar="JOB", help="Only about this job.", autocompletion=completing.jobs),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Begin with so many of the latest.")] = 20,
    as_json: AsJson = False,
    url: Url = None,
    secret: Secret = None,
) -> None:
    """Show what happened last, and with --follow what happens. With --json, following, each event is a line."""
    plain_logs()
    asked = {"kind": kind, "node": node, "slot": slot, "pool": pool, "run": run} | {
        "worker": worker,
        "task": task,
        "job": job,
    }
    which = {name: value for name, value in asked.items() if value is not None}
    asyncio.run(_events(address(url, secret, "runner"), which, limit, as_json, follow=follow))


async def _why(at: Address, subject: str, kinds: list[Kind], limit: int, as_json: bool) -> None:
    async with connect(at) as hub:
        answers = [found for kind in kinds if (found := await _ask(hub, kind, subject, limit)) is not None]
    if not answers:
        raise NotFound(f"Nothing is known of a {' or a '.join(kinds)} {subject}")
    if as_json:
        output.put_json(answers[0] if len(kinds) == 1 else {"found": answers})
        return
    for number, found in enumerate(answers):
        if number:
            output.put("")
        _put_explanation(found)


async def _ask(hub: HubApi, kind: Kind, subject: str, limit: int) -> dict[str, Any] | None:
    try:
        return await hub.get("why", kind, subject, limit=limit)
    except NotFound:
        return None


def _put_explanation(found: dict[str, Any]) -> None:
    output.put(
        output.one_line(f"{found.get('kind')} {found.get('id')} is {found.get('state')}: {found.get('because')}")
    )
    facts = {name: value for name, value in (found.get("facts") or {}).items() if value not in (None, [], "")}
    tables.put_facts((f"  {_words(name)}", _fact(value)) for name, value in facts.items())
    for step in found.get("next") or ():
        left = step.get("inSeconds")
        when = f"in {output.duration(left)}" if left is not None else "at some time"
        output.put(output.one_line(f"next  {step.get('event')} {when}. {step.get('rule')}"))
    for event in found.get("history") or ():
        output.put(_line(event))
    if not found.get("complete"):
        output.put("(older events are not shown, or are no longer kept)")


async def _events(at: Address, which: dict[str, str], limit: int, as_json: bool, *, follow: bool) -> None:
    if follow and not await listens(at.url):
        raise HubUnavailable(f"No hub listens at {mask_url(at.url)}; only a running hub can be followed.")
    async with connect(at) as hub:
        since = await _newest(hub) if follow else None  # first: where nothing is found below, the stream goes on here
        found = (await hub.get("history", limit=limit, **which)).get("events") or []
    if since is not None:
        await _follow(at, which, found, since, as_json)
        return
    if as_json:
        output.put_json({"events": found})
        return
    for event in reversed(found):
        _put(event, as_json)
    if not found:
        output.put("No events.")


async def _newest(hub: HubApi) -> str:
    """The id of the newest event of all; one before the first where there is none."""
    found = (await hub.get("history", limit=1)).get("events")
    return str(found[0]["id"]) if found else "0"


async def _follow(
    at: Address, which: dict[str, str], found: Sequence[dict[str, Any]], since: str, as_json: bool
) -> None:
    """Show what was found, and what happens after it, until a signal."""
    task = asyncio.current_task()
    assert task is not None
    stream = Stream(at, which, found[0]["id"] if found else since)
    with Signals(lambda _: task.cancel()):
        try:
            for event in reversed(found):
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
    """Events as a hub sends them; read again, it goes on where it was cut off."""

    def __init__(self, at: Address, which: dict[str, str], last: str) -> None:
        self._at = at
        self._which = which
        self._last = last

    async def read(self, begun: Callable[[], object] = bool) -> AsyncIterator[dict[str, Any]]:
        """Until the hub ends it; `begun` is called when it begins.

        Raises `httpx.HTTPError`, and `HubError` when the hub will not be followed.
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
    """As a list of events has it: a stream calls the time as it always did."""
    return {"at" if name == "atUtc" else name: value for name, value in event.items()}


def _put(event: dict[str, Any], as_json: bool) -> None:
    output.put(output.json_text(event) if as_json else _line(event))


def _line(event: dict[str, Any]) -> str:
    facts = " ".join(f"{name}={_fact(value)}" for name, value in event.items() if name not in _OWN)
    when = str(event.get("at") or "")[:23]
    return output.one_line(f"{when:<23}  {event.get('event')}  {facts}  {event.get('rule') or ''}".rstrip())


def _words(name: str) -> str:
    """`sinceBeatSeconds` as `since beat seconds`."""
    return "".join(f" {char.lower()}" if char.isupper() else char for char in name)


def _fact(value: Any) -> Any:
    if isinstance(value, list):
        return "; ".join(" ".join(_texts(each)) for each in value)
    return value


def _texts(value: Any) -> Iterable[str]:
    return [f"{name}={each}" for name, each in value.items()] if isinstance(value, dict) else [str(value)]
