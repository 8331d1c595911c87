"""Socket.IO as a part of the application: long polling and WebSockets, their bounds, and their ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar
from urllib.parse import parse_qs

from socketio import AsyncServer
from socketio.packet import BINARY_ACK, BINARY_EVENT, Packet
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from hub.api.handling.context import Serving
from hub.api.handling.kept_body import KeptBody
from hub.api.handling.problems import refuse as _refuse
from hub.api.handling.socket_places import Places, Sessions
from hub.api.paths import ABORT
from hub.api.realms.others import ServedRealms
from hub.api.sockets.events import Events
from hub.api.sockets.other_realms import OtherRealms
from hub.api.sockets.rooms import Rooms
from hub.errors import RequestTimedOut, Stopping, StoreUnavailable, TooLarge, Unavailable
from hub.observability import metrics
from hub.observability.logs import get_logger
from hub.store.cancelling import cancel_all
from hub.store.rounds import rounds

PING_S = 20  # between pings; each answers a waiting poll, before proxies give it up
PONG_S = 20  # for the answer to a ping: the threads of a busy client share one interpreter
MESSAGE_BYTES = 65_536  # of one message: clients send a name and an id
SEND_S = 20.0  # for a client to take a message; then the hub cuts its connection
BACKLOG = 5_000  # events that wait for one client; with more the hub cuts its connection
ROUND_S = 2.0
RECHECK_S = 0.25  # between checks for revoked tokens
SILENT_ROUNDS = 4  # rounds in which a client must send its connect packet
CLOSE_S = 5.0  # for the connections that remain when the hub stops
_CLOSE = "1"  # python-engineio's packet that ends a connection for good
_CONNECTION = "hub.wire"
_log = get_logger("hub.sockets")


class Sockets:
    """The Socket.IO connections of one hub process, as an ASGI application."""

    places: ClassVar = Places()  # shared by all realms of the process

    def __init__(self, serving: Serving, realms: ServedRealms | None = None) -> None:
        self._serving = serving
        self._timeout_s = serving.hub.settings.request_timeout_s
        self._events = Events(serving.hub.store)
        # Polling works with one process only: several processes behind one port share the requests of a client out.
        self._is_only_process = serving.hub.settings.workers == 1
        self._server = AsyncServer(
            async_mode="asgi",
            client_manager=self._events,
            serializer=TextPacket,
            async_handlers=False,  # a client's events are taken one after the other, in one task of asyncio
            ping_interval=PING_S,
            ping_timeout=PONG_S,
            max_http_buffer_size=MESSAGE_BYTES,
            http_compression=False,
            cors_allowed_origins=serving.gate.welcome,
            transports=["polling", "websocket"] if self._is_only_process else ["websocket"],
            logger=_LibraryLogger("server", counted=True),
            engineio_logger=_LibraryLogger("wire"),
        )
        self._sessions = self._server.eio.sockets = Sessions(self.places)
        self._others = OtherRealms(realms, serving.hub.settings.realm, self._events)
        self._rooms = Rooms(serving, self._server, self._events, self._others, self._sessions)
        self._server.on("disconnect", self._disconnected)
        self._stopping = False
        self._polls: set[asyncio.Task[None]] = set()
        self._sending: set[Callable[[], None]] = set()  # each cuts a connection that is being written to
        self._silent: dict[str, int] = {}
        self._cleanup: asyncio.Task[None] | None = None
        self._rechecking: asyncio.Task[None] | None = None
        self._rechecked: object = None  # the changes of tokens for which all connections have been checked

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._cleanup is None:
            self._cleanup = asyncio.create_task(rounds(ROUND_S, self._clean_up, self._cleanup_failed), name="sockets")
            self._rechecking = asyncio.create_task(
                rounds(RECHECK_S, self.recheck, self._recheck_failed), name="sockets-recheck"
            )
        if self._stopping or (self._serving.stopping and not _session(scope)):
            await _refuse(Stopping("The hub is stopping; connect to another one."), scope, receive, send)
        elif _session(scope):
            await self._take(scope, receive, send)
        else:
            await self._begin(scope, receive, send)

    async def _begin(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            place = self._sessions.reserve(self._serving.proxies.caller(scope))
        except Unavailable as refusal:
            await _refuse(refusal, scope, receive, send)
            return
        try:
            await self._take(scope, receive, send)
        finally:
            self._sessions.release(place)

    async def _take(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        else:
            await self._http(scope, receive, send)

    def hang_up(self) -> None:
        """Take no more connections, and cut those that wait or are being written to. Their clients connect again, to
        another hub; the server closes all other connections."""
        self._stopping = True
        self._serving.hub.presence.stop()
        for poll in self._polls:
            poll.cancel()
        for cut in list(self._sending):
            cut()

    async def close(self) -> None:
        """End the connections that are still open, and stop all background tasks."""
        self.hang_up()
        if looking := [task for task in (self._cleanup, self._rechecking) if task is not None]:
            await cancel_all(looking)
        if left := [self._end(socket) for socket in list(self._server.eio.sockets.values())]:
            await asyncio.wait([asyncio.ensure_future(each) for each in left], timeout=CLOSE_S)
        self._sessions.clear()
        await self._server.shutdown()
        await self._others.close()
        await self._events.close()

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._is_only_process:
            text = "This hub runs several processes, so polling does not work: connect with transports=['websocket']."
            await PlainTextResponse(text, 400)(scope, receive, send)
            return
        kept = KeptBody(scope, receive, self._serving.large_bodies)
        try:
            body = await kept.whole(MESSAGE_BYTES, self._timeout_s)
        except (RequestTimedOut, TooLarge, Unavailable) as refusal:
            await _refuse(refusal, scope, receive, send)
            return
        finally:
            kept.unload()
        if body is not None:
            await self._poll(_with_length(scope, len(body)), body, receive, send)

    async def _poll(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        exchange = _Exchange(body, send)
        answering = asyncio.ensure_future(self._server.handle_request(scope, exchange.receive, exchange.send))
        if scope["method"] == "GET":
            watching = asyncio.ensure_future(_until_gone(receive))
            self._polls.add(answering)
            # A client that hangs up on its poll is gone. Without this check only an unanswered ping would show that.
            await asyncio.wait((answering, watching), return_when=asyncio.FIRST_COMPLETED)
            self._polls.discard(answering)
            answering.cancel()  # python-engineio ends the connection of a poll that is cancelled
            watching.cancel()
        elif (socket := self._server.eio.sockets.get(_session(scope))) is not None:
            await asyncio.wait((answering,))
            if socket.closed:
                _wake(socket)
        await asyncio.wait((answering,))
        if not answering.cancelled() and (error := answering.exception()):
            await self._failed(error, scope)
            if not exchange.answered:
                await PlainTextResponse("Bad Request", 400)(scope, receive, send)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        abort = scope.get("extensions", {}).get(ABORT, lambda: None)

        async def put(message: Message) -> None:
            if message.get("text") == _CLOSE:
                raise OSError("the connection ends, without a word: a client that is told to close does not come back")
            self._sending.add(abort)
            try:
                async with asyncio.timeout(SEND_S):
                    await send(message)
            except TimeoutError:
                abort()
                raise OSError("the client does not read") from None
            finally:
                self._sending.discard(abort)

        sid = _session(scope)
        if sid in self._server.environ and sid in self._server.eio.sockets:
            self._server.environ[sid][_CONNECTION] = scope
        try:
            await self._server.handle_request(scope, receive, put)
        except Exception as error:  # noqa: BLE001 - handed on
            await self._failed(error, scope)
            abort()

    async def _failed(self, error: BaseException, scope: Scope) -> None:
        """Log and end the connection of a client whose message python-engineio refuses."""
        _log.debug("socket failed", why=repr(error))
        for sid in list(self._server.environ):
            if self._wire(sid) is scope and sid in self._server.eio.sockets:
                await self._end(self._server.eio.sockets[sid])

    async def _disconnected(self, sid: str, reason: str) -> None:
        wire = self._wire(self._events.eio_sid_from_sid(sid, "/"))
        await self._rooms.disconnect(sid, reason)
        if reason == self._server.reason.PING_TIMEOUT:
            _cut(wire)  # a client that is alive after all notices the cut, and connects again

    def _cleanup_failed(self, error: Exception) -> None:
        metrics.unhandled.inc()
        _log.error("abandoned sockets not closed", why=repr(error))

    def _recheck_failed(self, error: Exception) -> None:
        metrics.unhandled.inc()
        _log.error("socket token check failed", why=repr(error))

    async def recheck(self) -> None:
        """End the connections of clients whose credential gives another caller than when they connected. The
        connections are checked only when some token has changed."""
        if not self._rooms.connections:
            return
        try:
            await self._serving.holders.look()
            oidc = self._serving.oidc
            changes = (*self._serving.holders.changes, *(oidc.changes if oidc is not None else ()))
            if changes == self._rechecked:
                return
            changed = await self._rooms.changed()
        except StoreUnavailable:
            return  # the hub clock reports the outage; no client becomes a stranger by it
        self._rechecked = changes
        for sid in changed:
            await self._cut_off(sid, "its token was revoked, or gives less than it did")

    async def _clean_up(self) -> None:
        """End connections that never sent their connect packet, that do not take what they are sent, and that listen to
        a realm which has moved or is gone."""
        sockets = self._server.eio.sockets
        silent = {}
        for sid, socket in list(sockets.items()):
            if self._events.sid_from_eio_sid(sid, "/") is None:
                silent[sid] = self._silent.get(sid, 0) + 1
            if silent.get(sid, 0) > SILENT_ROUNDS or socket.queue.qsize() > BACKLOG:
                _log.debug("abandoned or unread socket closed", sid=sid, waiting=socket.queue.qsize())
                await self._end(socket)
        self._silent = silent
        for sid in self._rooms.moved():
            await self._cut_off(sid, "a realm that it listens to has moved, or is gone")
        await self._others.tidy()
        for sid in list(self._rooms.connections):
            socket = sockets.get(self._events.eio_sid_from_sid(sid, "/"))
            if socket is None or socket.closed:  # the connection ended while its client was being let in
                await self._rooms.disconnect(sid, "ended early")
                await self._events.disconnect(sid, "/", ignore_queue=True)

    async def _cut_off(self, sid: str, why: str) -> None:
        _log.info("socket closed by the hub", sid=sid, why=why)
        socket = self._server.eio.sockets.get(self._events.eio_sid_from_sid(sid, "/"))
        if socket is not None:
            await self._end(socket)

    async def _end(self, socket: Any) -> None:
        """End a connection of python-engineio without telling the client, which finds its connection broken and
        connects again."""
        wire = self._wire(socket.sid)
        await socket.close(wait=False, abort=True, reason=self._server.reason.TRANSPORT_ERROR)
        self._server.eio.sockets.pop(socket.sid, None)
        _wake(socket)
        _cut(wire)

    def _wire(self, sid: str) -> Scope:
        """Return the scope of the request that began a connection, or of the WebSocket that it was upgraded to; empty
        when there is none."""
        environ = self._server.environ.get(sid, {})
        wire: Scope = environ.get(_CONNECTION) or environ.get("asgi.scope") or {}
        return wire


class _Exchange:
    """A request whose body has been read, and whether it has been answered."""

    def __init__(self, body: bytes, send: Send) -> None:
        self._body = body
        self._send = send
        self.answered = False

    async def receive(self) -> Message:
        return {"type": "http.request", "body": self._body, "more_body": False}

    async def send(self, message: Message) -> None:
        self.answered = True
        await self._send(message)


class TextPacket(Packet):  # type: ignore[misc]
    """A packet of Socket.IO without binary attachments. The hub does not use them, and python-socketio collects them
    without a bound."""

    def decode(self, encoded_packet: str) -> Any:
        found = super().decode(encoded_packet)
        if self.packet_type in (BINARY_EVENT, BINARY_ACK):
            raise ValueError("no attachments here")
        return found


class _LibraryLogger:
    """The logger that the two libraries of Socket.IO write to. They log nonsense of a client as an error, and every
    packet; the hub logs that on debug level."""

    def __init__(self, part: str, *, counted: bool = False) -> None:
        self._part = part
        self._counted = counted

    def debug(self, *_: Any, **__: Any) -> None:
        """Drop the message."""

    info = debug

    def warning(self, text: str, *values: Any, **_: Any) -> None:
        _log.debug("socket library message", part=self._part, text=text % values if values else text)

    error = warning

    def exception(self, text: str, *values: Any, **_: Any) -> None:
        """Log an exception of the library: as the client's fault on debug level, or, with `counted`, as a failure of
        the hub."""
        if not self._counted:
            _log.debug("socket library message", part=self._part, text=text % values if values else text, exc_info=True)
            return
        metrics.unhandled.inc()
        _log.error("socket library failed", text=text % values if values else text, exc_info=True)


def _with_length(scope: Scope, length: int) -> Scope:
    """Return the scope with the length of the body that has arrived, in the place of the announced length."""
    headers = [(name, value) for name, value in scope["headers"] if name != b"content-length"]
    return {**scope, "headers": [*headers, (b"content-length", str(length).encode())]}


def _session(scope: Scope) -> str:
    query: bytes = scope["query_string"]
    return parse_qs(query).get(b"sid", [b""])[0].decode("latin-1")


def _wake(socket: Any) -> None:
    """End the poll of a connection that has ended: python-engineio would let the poll wait for a ping."""
    socket.queue.put_nowait(None)


def _cut(wire: Scope) -> None:
    wire.get("extensions", {}).get(ABORT, lambda: None)()


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
