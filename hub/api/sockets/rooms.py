"""The calls of Socket.IO clients: connecting with a credential, joining and leaving rooms, and speaking for workers."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from socketio import AsyncServer
from socketio.exceptions import ConnectionRefusedError as Refused
from starlette.datastructures import Headers
from starlette.types import Scope

from hub.api.callers import finding
from hub.api.callers.caller import READ, STRANGER, WORKER, Caller, room_of
from hub.api.callers.credentials import slow_down
from hub.api.callers.finding import Shown
from hub.api.handling.context import Serving
from hub.api.handling.socket_places import Sessions
from hub.api.realms.subjects import NAMED
from hub.api.shapes.messages import DoneShape
from hub.api.sockets.events import Events
from hub.api.sockets.other_realms import OtherRealms, RealmPlace
from hub.errors import Forbidden, HubError, Stopping, StoreUnavailable, Unauthorized
from hub.jobs.names import check_room, parse_full_name, to_id
from hub.observability import metrics
from hub.observability.logs import get_logger
from hub.observability.tracing import tracing
from hub.tokens.oidc.issuer import IssuerAway
from hub.tokens.secrets import HEADER

HEARD_S = 2.0  # for Redis to confirm a subscription
ROOMS_MAX = 5_000  # rooms that one connection may be in
EVENTS_PER_S = 500.0  # events that one connection may send; further ones wait, and all that follow them
EVENTS_AT_ONCE = 2_500  # events without a wait, for a client that comes back and joins many rooms
NAME_MAX = 1_000  # characters of a room's name
OK = DoneShape(status="ok")
_AGAIN = "The hub does not reach its store now; try again in a moment."
_log = get_logger("hub.sockets")


class Ignored(Exception):
    """The refusal of a client's message that makes no sense; its text says why."""


class SocketConnection:
    """A client that was let in, with the credentials that it has shown. A stranger may read where
    strangers may."""

    def __init__(self, caller: Caller, shown: Shown, *, names_realm: bool) -> None:
        self.caller = caller
        self.shown = shown
        self.names_realm = names_realm
        self.rooms: set[str] = set()
        self.places: list[RealmPlace] = []  # other realms in which this client has joined rooms
        self._due = -math.inf  # when the next event may be taken without a wait

    def early_s(self, now: float) -> float:
        """Count an event that has arrived now, and return for how many seconds it must wait."""
        self._due = max(self._due, now - EVENTS_AT_ONCE / EVENTS_PER_S) + 1 / EVENTS_PER_S
        return max(0.0, self._due - now)


class Rooms:
    """The handlers of Socket.IO events: they let clients in and out, and in and out of rooms. No message of a client
    ends in an exception."""

    def __init__(
        self, serving: Serving, server: AsyncServer, events: Events, others: OtherRealms, sessions: Sessions
    ) -> None:
        self._serving = serving
        self._server = server
        self._others = others
        self._sessions = sessions
        self._here = RealmPlace(serving, events.channel_of_store)
        self.connections: dict[str, SocketConnection] = {}
        server.on("connect", self.connect)
        for event, act in (
            ("join_job_room", self._join_jobs),
            ("leave_job_room", self._leave_jobs),
            ("join_provider_room", self._join_providers),
            ("leave_provider_room", self._leave_providers),
            ("room_join", self._join_room),
            ("room_leave", self._leave_room),
        ):
            server.on(event, self._taking(event, act))

    async def connect(self, sid: str, environ: dict[str, Any], auth: Any = None) -> None:
        """Let a client in, or refuse the connection with a text."""
        with tracing.event("connect", environ["asgi.scope"]["headers"]):
            await self._connect(sid, environ, auth)

    async def _connect(self, sid: str, environ: dict[str, Any], auth: Any) -> None:
        try:
            shown = _shown(environ["asgi.scope"], auth)
            caller = await self._who(shown, environ.get("HTTP_HOST"))
            if not await self._here.channel.hears(HEARD_S):
                raise StoreUnavailable(_AGAIN)
            if caller is not STRANGER:
                credential = None if shown == Shown() else shown
                self._sessions.let_in(self._server.manager.eio_sid_from_sid(sid, "/"), credential)
        except Exception as error:  # noqa: BLE001 - refused below
            if (refusal := _refusal(error)) is not None:
                _log.debug("socket refused", why=refusal.code)
                tracing.refused(refusal.code)
                if isinstance(refusal, Unauthorized):
                    token = auth.get("token") if isinstance(auth, dict) else None
                    await slow_down(self._serving, environ["asgi.scope"], str(token or ""))
                raise Refused(_text(refusal)) from None
            tracing.refused("internal", failed=True)
            metrics.unhandled.inc()
            _log.error("socket connect failed", why=repr(error), exc_info=error)
            raise Refused("The hub failed on this connection.") from None
        names_realm = environ["asgi.scope"].get(NAMED) is not None
        self.connections[sid] = SocketConnection(caller, shown, names_realm=names_realm)
        self._serving.hub.presence.connected(sid)
        _log.debug("socket connected", sid=sid, user=caller.user or None)

    async def disconnect(self, sid: str, reason: str) -> None:
        """Forget a client that is gone, whichever side has ended the connection, and tell the store that the workers
        bound to it have lost this connection."""
        connection = self.connections.pop(sid, None)
        for place in (self._here, *(connection.places if connection else ())):
            try:
                with place.within():
                    await place.serving.hub.presence.ended(sid)
            except Exception as error:  # noqa: BLE001 - the connection is over; the workers' heartbeats decide
                metrics.unhandled.inc()
                _log.error("socket disconnect not recorded", why=repr(error))
        _log.debug("socket disconnected", sid=sid, why=reason)

    async def changed(self) -> list[str]:
        """Return the ids of the connections whose credential does not give the same caller any more: their tokens were
        revoked, or give less than before. Raises `StoreUnavailable` when the tokens cannot be looked up."""
        return [sid for sid, connection in list(self.connections.items()) if not await self._is_same_caller(connection)]

    def moved(self) -> list[str]:
        """Return the ids of the connections that are in rooms of a realm that is gone or whose store has moved."""
        return [
            sid
            for sid, connection in self.connections.items()
            if not all(self._others.is_there(place) for place in connection.places)
        ]

    async def _is_same_caller(self, connection: SocketConnection) -> bool:
        try:
            return await finding.known_user(self._serving, connection.shown) == connection.caller
        except (Unauthorized, Forbidden):  # of the issuer: its token has ended
            return False
        except IssuerAway:
            return True

    async def _who(self, shown: Shown, host: str | None) -> Caller:
        if self._serving.stopping:
            raise Stopping("The hub is stopping; connect to another one.")
        if self._serving.hub.store.away:
            raise StoreUnavailable(_AGAIN)
        caller = await finding.known_user(self._serving, shown)
        may_read = self._serving.hub.settings.anonymous_reads and self._serving.gate.may_read_unnamed(host)
        if caller is STRANGER and (shown != Shown() or not may_read):
            raise Unauthorized("Unauthorized")
        return caller

    def _taking(self, event: str, act: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[Any]]:
        """Return the handler of an event, for python-socketio. The handler answers `{"status": "ok"}`, or a text that
        says why the event was refused."""

        async def take(sid: str, *message: Any) -> Any:
            connection = self.connections.get(sid)
            if connection is None:
                return "This connection has ended."
            with tracing.event(event, self._server.get_environ(sid)["asgi.scope"]["headers"]):
                return await answer(sid, connection, *message)

        async def answer(sid: str, connection: SocketConnection, *message: Any) -> Any:
            if early_s := connection.early_s(time.monotonic()):
                await asyncio.sleep(early_s)  # python-engineio reads nothing from this client during the sleep
            try:
                with suppress(StoreUnavailable):  # `recheck` looks again when the store answers
                    if not await self._is_same_caller(connection):
                        tracing.refused(Unauthorized.code)
                        return "Unauthorized"
                await act(sid, connection, message[0] if message else None)
            except Ignored as reason:
                tracing.refused("ignored")
                _log.debug("socket event ignored", said=event, why=str(reason), sid=sid)
                return str(reason)
            except Exception as error:  # noqa: BLE001 - the connection goes on; the failure is logged and counted
                if (refusal := _refusal(error)) is not None:
                    tracing.refused(refusal.code)
                    _log.debug("socket event refused", said=event, why=refusal.code, sid=sid)
                    return _text(refusal)
                tracing.refused("internal", failed=True)
                metrics.unhandled.inc()
                _log.error("socket event failed", said=event, why=repr(error), exc_info=error)
                return "The hub failed on this event."
            return OK

        return take

    async def _join_jobs(self, sid: str, connection: SocketConnection, message: Any) -> None:
        await self._join_as_worker(sid, connection, message, "job_name", "jobs:")

    async def _join_providers(self, sid: str, connection: SocketConnection, message: Any) -> None:
        place = await self._join_as_worker(sid, connection, message, "provider_name", "providers:")
        with place.within():
            await place.serving.hub.providers.joined(_full_name(message, "provider_name"))

    async def _join_as_worker(
        self, sid: str, connection: SocketConnection, message: Any, member: str, kind: str
    ) -> RealmPlace:
        """Join the room of a job or a provider as one of its workers. The room is joined also when the worker is
        unknown or another user's. The connection is bound to the worker only if the worker is the user's own: then the
        end of the connection counts as the end of the worker."""
        full, worker = _full_name(message, member), _worker(message)
        place, caller = await self._place(sid, connection, room_of(full), worker)
        if caller is STRANGER:
            raise Unauthorized("Unauthorized")
        caller.check_scope(WORKER)
        caller.enter(room_of(full))
        with place.within():
            if worker is not None:
                await caller.reach_worker(place.serving.hub, worker)
            await self._enter(sid, connection, place.room(kind + full))
            await self._be_heard(place)  # first: a worker that is bound hears of each task from then on
            if worker is not None:
                await place.serving.hub.presence.bind(worker, caller.user, sid)
        return place

    async def _join_room(self, sid: str, connection: SocketConnection, message: Any) -> None:
        room = _text_of(message, "room_id")
        check_room(room)
        place, caller = await self._place(sid, connection, room, None)
        if not self._serving.hub.settings.anonymous_reads:
            if caller is STRANGER:
                raise Unauthorized("Unauthorized")
            caller.check_scope(READ)
        caller.look_into(room)
        await self._enter(sid, connection, place.room(f"room:{room}"))
        await self._be_heard(place)

    async def _place(
        self, sid: str, connection: SocketConnection, room: str, worker: str | None
    ) -> tuple[RealmPlace, Caller]:
        """Return the place of a room, and the caller that the client is in that realm. Raises `Unauthorized` when the
        client's credential gives another caller there."""
        place = None if connection.names_realm else self._others.find(room, worker or "")
        if place is None:
            return self._here, connection.caller
        caller = await finding.known_user(place.serving, connection.shown)
        if caller != connection.caller:
            raise Unauthorized("Unauthorized")
        if sid not in self.connections:  # the connection has ended, and that realm would never hear of it
            raise Ignored("This connection has ended.")
        if place not in connection.places:
            connection.places.append(place)
            place.serving.hub.presence.connected(sid)
        return place, caller

    async def _leave_jobs(self, sid: str, connection: SocketConnection, message: Any) -> None:
        await self._leave(sid, connection, f"jobs:{_full_name(message, 'job_name')}")

    async def _leave_providers(self, sid: str, connection: SocketConnection, message: Any) -> None:
        await self._leave(sid, connection, f"providers:{_full_name(message, 'provider_name')}")

    async def _leave_room(self, sid: str, connection: SocketConnection, message: Any) -> None:
        await self._leave(sid, connection, f"room:{_text_of(message, 'room_id')}")

    async def _enter(self, sid: str, connection: SocketConnection, room: str) -> None:
        if room not in connection.rooms and len(connection.rooms) >= ROOMS_MAX:
            raise Ignored(f"A connection may be in {ROOMS_MAX} rooms.")
        connection.rooms.add(room)
        await self._server.enter_room(sid, room)

    async def _leave(self, sid: str, connection: SocketConnection, name: str) -> None:
        for place in (self._here, *connection.places):
            room = place.room(name)
            connection.rooms.discard(room)
            await self._server.leave_room(sid, room)

    async def _be_heard(self, place: RealmPlace) -> None:
        """Wait until the events of a room are received, before the client is told that it is in the room; raises
        `StoreUnavailable`."""
        if place.serving.hub.store.away or not await place.channel.hears(HEARD_S):
            raise StoreUnavailable("The hub does not reach its store now; events come again when it does.")


def _shown(scope: Scope, auth: Any) -> Shown:
    """Return the credentials of a connection: the token in its connect packet, else the headers of its request."""
    headers = Headers(scope=scope)
    token = auth.get("token") if isinstance(auth, dict) else None
    authorization = [f"Bearer {token}"] if token else headers.getlist("authorization")
    return Shown(tuple(authorization), headers.get(HEADER, ""))


def _text_of(message: Any, member: str) -> str:
    text = message.get(member) if isinstance(message, dict) else None
    if not isinstance(text, str) or not text:
        raise Ignored(f"There must be an object with a text as {member}.")
    if len(text) > NAME_MAX:
        raise Ignored(f"{member} has more than {NAME_MAX} characters.")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise Ignored(f"{member} holds half of a character, which no name can.")
    return text


def _full_name(message: Any, member: str) -> str:
    full = _text_of(message, member)
    if parse_full_name(full) is None:
        raise Ignored(f"{member} must be room:category:name.")
    return full


def _worker(message: dict[str, Any]) -> str | None:
    """Return the id of the worker in a message; None when there is none. Clients without a worker send the word
    `None`."""
    named = message.get("worker_id")
    try:
        return to_id(named) if isinstance(named, str) else None
    except ValueError:
        return None


def _refusal(error: Exception) -> HubError | None:
    """Return an error as one that the client may be told; None for a failure of the hub, whose text the client is not
    told."""
    return error if isinstance(error, HubError) and error.status != 500 else None


def _text(refusal: HubError) -> str:
    return refusal.detail or refusal.code
