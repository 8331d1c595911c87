"""The endpoints for events: the latest ones, the explanation of a state by them, and the stream of new ones as
server-sent events."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Annotated, cast

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hub.api.callers.credentials import credential
from hub.api.handling.context import hang_up, in_seconds
from hub.api.inputs import Caller, Query, Serving
from hub.api.operations import Raw, Subject, operation, takes
from hub.api.shapes import parameters as p
from hub.api.shapes import reading as bodies
from hub.api.shapes.answer import Answer
from hub.api.shapes.messages import GapShape, SlowShape
from hub.api.shapes.operators import EventShape, EventsShape, ExplanationShape, StepShape
from hub.api.shapes.readers import whole_number
from hub.errors import Forbidden, InvalidValue, NotFound, StoreUnavailable
from hub.history.events import NAMES, Event, Wanted, parse_id, wanted
from hub.history.live import EventListener, Live
from hub.history.why import KINDS, why
from hub.observability import metrics
from hub.tokens.secrets import ADMIN, RUNNER
from hub.wire import to_json

router = APIRouter(tags=["events"])
SEND_S = 20.0  # for a listener to take what was sent; its connection is cut after once to twice this time
TOGETHER = 50  # the most events in one write; after each write other listeners have their turn
RETRY_MS = 2000  # the time after which a listener that was cut off connects again
_SHOWN = 'id: 1750000000000-0\nevent: grant.lent\ndata: {"event": "grant.lent"}\n\n'


@takes(*p.EVENTS_OF)
def _which(request: Request) -> Wanted:
    """Return which events the query asks for; raises `InvalidValue`."""
    query = request.query_params
    return wanted(query.get("kind", ""), {name: query[name] for name in NAMES if name in query})


def _after(request: Request) -> str | None:
    """Return the id of the event after which a listener wants to go on; None when it names none. Raises
    `InvalidValue`."""
    name, given = "after", request.query_params.get("after", "")
    if not given:
        name, given = "Last-Event-ID", request.headers.get("last-event-id", "")
    return "{}-{}".format(*parse_id(given, name)) if given.strip() else None


@takes(p.LIMIT)
def _limit(request: Request) -> int:
    """Return how many events the query asks for at most; raises `InvalidValue`."""
    return whole_number(request.query_params.get("limit", "100"), "limit", 1, bodies.PAGE_MAX)


@takes(p.AFTER, p.LAST_EVENT, *p.EVENTS_OF)
def _which_after(request: Request) -> tuple[Wanted, str | None]:
    """Return which events a stream is to have, and the event after which it begins; raises `InvalidValue`."""
    return _which(request), _after(request)


WantedEvents = Annotated[Wanted, Depends(_which)]
After = Annotated[str | None, Depends(_after)]
Limit = Annotated[int, Depends(_limit)]


@router.get("/history", **operation("listEvents", (RUNNER, ADMIN)))
async def history(serving: Serving, limit: Limit, which: WantedEvents) -> Answer[EventsShape]:
    """Return the latest events, newest first: all, or those of some kinds and about one node, slot, pool, run, ticket,
    worker, task, job or schedule.

    `complete` says that no older event exists: none is beyond `limit`, and none was trimmed from the bounded history.
    """
    found = await serving.live.history.find(which, limit)
    return Answer(EventsShape(events=_shown(found.events), complete=found.complete))


_OF_CAPACITY = ("node", "slot", "ticket", "run")


@router.get(
    "/why/{kind}/{id:path}",
    **operation(
        "explain",
        (RUNNER, ADMIN),
        p.WHY_LIMIT,
        refusals=(Forbidden, NotFound),
        about=Subject("why", "id"),
        borrows=True,
    ),
)
async def explain(serving: Serving, caller: Caller, query: Query, kind: str, id: str) -> Answer[ExplanationShape]:
    """Explain the state of a `node`, `slot`, `ticket`, `run`, `task`, `worker`, `job` or `schedule`: the events, the
    rules behind them, and the next step. 404 when nothing is known of it.

    A ticket is named by its id or by the `Idempotency-Key` of its borrow, a job by its full name, a schedule by
    `room:name`. A user's token that may borrow is told of nodes, slots, tickets and runs.
    """
    known = next((one for one in KINDS if one == kind), None)
    if known is None:
        raise InvalidValue(f"kind must be one of {', '.join(KINDS)}, not {kind!r:.60}", member="kind")
    if caller.by not in ("", "node") and known not in _OF_CAPACITY:
        raise Forbidden(f"A token of a user is told of {', '.join(_OF_CAPACITY)} here.")
    limit = whole_number(query.get("limit", "50"), "limit", 1, bodies.PAGE_MAX)
    found = await why(serving.hub, serving.live.history, known, id, limit)
    steps = [StepShape(event=step.what, inSeconds=in_seconds(step.in_ms), rule=step.rule) for step in found.now.next]
    answer = ExplanationShape(
        kind=found.kind,
        id=found.id,
        state=found.now.state,
        because=found.now.because,
        facts=found.now.facts,
        next=steps,
        history=_shown(found.past.events),
        complete=found.past.complete,
    )
    return Answer(answer)


def _shown(events: Iterable[Event]) -> list[EventShape]:
    return [cast(EventShape, event.document()) for event in events]  # a document also has facts under any name


@router.get("/events", **operation("followEvents", (RUNNER, ADMIN), raw=Raw("text/event-stream", _SHOWN), endless=True))
async def events(
    request: Request, serving: Serving, asked: Annotated[tuple[Wanted, str | None], Depends(_which_after)]
) -> Response:
    """Send events as server-sent events: those from now on, or those after the event that `Last-Event-ID` (or
    `?after=`) names.

    The event `gap` says that events before the next one have been trimmed. The event `slow` says that the client did
    not read this stream, which ends: connect again with the last id. A comment comes every 15 s.
    """
    return EventStream(serving.live, *asked, await credential(request))


class EventStream(Response):
    """A stream of events as a response. It ends when the listener goes, when the hub stops, or when the listener has
    read nothing for too long.

    With `latest` the stream also has the frames that `Live.tell` gives to all such streams.
    """

    media_type = "text/event-stream"

    def __init__(self, live: Live, which: Wanted, after: str | None, who: str, *, latest: bool = False) -> None:
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._live = live
        self._which = which
        self._after = after
        self._who = who
        self._latest = latest
        self._sending_since = math.inf  # when the send under way began; infinite while there is none

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._live.listen(self._which, self._who, latest=self._latest) as listener:
            since = self._live.position
            begin = f"retry: {RETRY_MS}\nid: {self._after or since}\n\n".encode()
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            sending = asyncio.create_task(self._send(send, listener, begin, since))
            watching = asyncio.create_task(_until_gone(receive))
            try:
                await self._watch(scope, (sending, watching))
            finally:
                for task in (sending, watching):
                    task.cancel()
                await asyncio.wait((sending, watching))
        if not sending.cancelled():
            sending.result()

    async def _watch(self, scope: Scope, tasks: Sequence[asyncio.Task[None]]) -> None:
        """Wait until one of these tasks of asyncio ends. Cut the connection when one send takes longer than `SEND_S`
        seconds.

        One timer for the stream costs less than one for each send.
        """
        while not (await asyncio.wait(tasks, timeout=SEND_S, return_when=asyncio.FIRST_COMPLETED))[0]:
            if time.monotonic() - self._sending_since >= SEND_S:
                metrics.event_streams_slow.inc()
                hang_up(scope)
                return

    async def _send(self, send: Send, listener: EventListener, begin: bytes, since: str) -> None:
        async def put(body: bytes, *, more: bool = True) -> None:
            self._sending_since = time.monotonic()
            await send({"type": "http.response.body", "body": body, "more_body": more})
            self._sending_since = math.inf

        with suppress(StoreUnavailable):  # the stream ends; the listener connects again with the last id it saw
            await put(begin)
            known = (0, 0)
            if self._after is not None:
                await self._replay(put, self._after, since)
                known = await self._known(self._after, since)
            await self._follow(put, listener, known)
        if listener.slow:
            metrics.event_streams_slow.inc()
            slow = SlowShape(rule="Too much waited to be sent; come back with the last id.")
            await put(b"event: slow\ndata: " + to_json(slow) + b"\n\n")
        await put(b"", more=False)

    async def _replay(self, put: Callable[..., Awaitable[None]], after: str, since: str) -> None:
        """Send the events after `after` and up to `since`, as far as they have not been trimmed."""
        upto = parse_id(since, "id")
        while True:
            page = await self._live.history.after(after)
            if page.oldest is not None:
                gap = GapShape(after=after, oldest=page.oldest, rule="Older events have been trimmed.")
                await put(b"event: gap\ndata: " + to_json(gap) + b"\n\n")
            events = [event for event in page.events if parse_id(event.id, "id") <= upto]
            if fitting := [event for event in events if self._which.fits(event)]:
                await put(b"".join(event.frame for event in fitting))
            if page.last or len(events) < len(page.events):
                return
            after = page.events[-1].id

    async def _known(self, after: str, since: str) -> tuple[int, int]:
        """Return the id of the last event that the listener knows, when it is later than what this hub has read; else
        (0, 0). The hub reads the store a few times a second, so a list may have shown the listener later events, which
        must not be sent again. An id that the store does not have is ignored: it comes from a store that was replaced,
        and new ids may be lower."""
        last = parse_id(after, "id")
        return last if last > parse_id(since, "id") and await self._live.history.has(after) else (0, 0)

    async def _follow(
        self, put: Callable[..., Awaitable[None]], listener: EventListener, known: tuple[int, int]
    ) -> None:
        while not (listener.over or listener.slow):
            found, latest = await listener.take()
            if found or latest:
                if known > (0, 0):
                    found = [event for event in found if parse_id(event.id, "id") > known]
                frames = [*(event.frame for event in found), *([latest()] if latest else [])]
                for at in range(0, len(frames), TOGETHER):
                    if at:
                        await asyncio.sleep(0)
                    await put(b"".join(frames[at : at + TOGETHER]))
            elif not (listener.over or listener.slow):
                await put(f": nothing new\nid: {self._live.position}\n\n".encode())


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
