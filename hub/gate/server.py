"""The server of the gate: uvicorn, as the hub has it, whose upgraded connections are handed over as they are."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, ClassVar, Final
from urllib.parse import SplitResult, unquote

import httptools
import uvicorn
from starlette.applications import Starlette
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hub.api.handling.problems import on_hub_error
from hub.api.server import keep_what_is_made, server_options, set_bounds
from hub.api.serving.protocol import NEVER, closing_answer
from hub.api.serving.upgrades import UpgradingProtocol
from hub.errors import BadInput, CallerGone, HubError, Internal, NotFound, Stopping
from hub.gate.callers import CONNECT, GateCallers, while_there
from hub.gate.leasing import GateLease
from hub.gate.pipe import Pipe, PipeEnd
from hub.gate.slots import passed_on, shake_hands, socket_of
from hub.gate.tunnels import METHODS, Tunnels
from hub.observability import metrics
from hub.observability.logs import get_logger
from hub.retries import now_s
from hub.settings import Settings
from hub.settings.addresses import is_loopback

POOLS_SHOWN: Final = 1000
_log = get_logger("hub.gate")


class GateProtocol(UpgradingProtocol):
    """The hub's HTTP protocol, whose upgraded connections go to the gate; elsewhere it ignores `Upgrade`."""

    server_of_gate: ClassVar[GateServer]

    def _should_upgrade(self) -> bool:
        return self.url.startswith(CONNECT.encode()) and super(UpgradingProtocol, self)._should_upgrade()

    def handle_websocket_upgrade(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self.send_400_response("A WebSocket begins after the answers to earlier requests.")
            return
        self._watch.cancel()
        self._since = NEVER
        self.connections.discard(self)
        end = PipeEnd(partial(self.all_open.closed, self))
        end.connection_made(self._plain)
        self._plain.set_protocol(end)
        parsed = httptools.parse_url(self.url)
        place = {"path": unquote(parsed.path.decode("ascii")), "raw_path": parsed.path}
        scope = {**self.scope, **place, "type": "websocket", "query_string": parsed.query or b""}
        self.server_of_gate.took(self.loop.create_task(self.server_of_gate.connect(HTTPConnection(scope), end)))


class GateServer:
    """The gate of the hub at `url`."""

    def __init__(self, settings: Settings, url: str) -> None:
        self._callers = GateCallers(settings, url, beyond=not is_loopback(settings.gate_host))
        self._tunnels = Tunnels(self._callers)
        self._connected: set[asyncio.Task[Any]] = set()
        ways = [Route("/", self._show), Route("/health", self._health)]
        ways.append(Route(CONNECT + "{label}/{rest:path}", self._tunnels.answer, methods=METHODS))
        ways.append(Route("/{path:path}", self._nothing, methods=METHODS))
        refused: Any = {HubError: on_hub_error, Exception: on_hub_error}
        self.app = Starlette(routes=ways, exception_handlers=refused, lifespan=self._lifespan)
        self.app.router.redirect_slashes = False

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        keep_what_is_made()
        beating = asyncio.create_task(self._callers.pulse.beat())
        if (certificates := GateProtocol.certificates) is not None:
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, certificates.read_again)
        yield
        await self._tunnels.close()
        for task in self._connected:
            task.cancel()
        if self._connected:
            await asyncio.wait(self._connected)
        await self._callers.close()
        beating.cancel()

    async def _health(self, _: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _nothing(self, _: Request) -> Response:
        raise NotFound("Open a WebSocket at /connect/LABEL, or ask for a path below it; GET / shows the labels.")

    async def _show(self, request: Request) -> Response:
        """Answer with what can be connected to, and how many are free."""
        async with self._callers.admitted(request) as (_, client):
            page = await client.pools(limit=POOLS_SHOWN)
        pools = [
            {"label": each["label"], "free": each["available"], "connect": CONNECT + each["label"]}
            for each in page["pools"]
        ]
        return JSONResponse({"total": page["total"], "pools": pools})

    def took(self, task: asyncio.Task[None]) -> None:
        """Keep the task that serves a connection, to end it when the gate stops."""
        self._connected.add(task)
        task.add_done_callback(self._connected.discard)

    async def connect(self, connection: HTTPConnection, end: PipeEnd) -> None:
        """Serve the WebSocket of a caller: lend a slot for as long as it is open, or refuse before the upgrade."""
        refusal: HubError | None = None
        try:
            await self._lend(connection, end)
        except asyncio.CancelledError:
            refusal = Stopping("The gate stops; ask again.")
        except CallerGone:
            pass
        except HubError as refused:
            refusal = refused
        except Exception:  # noqa: BLE001 - the caller gets an answer, the log the traceback
            metrics.unhandled.inc()
            _log.exception("gate connection failed", path=connection.scope["path"])
            refusal = Internal("The gate failed on this request.")
        finally:
            if end.pipe is None:
                if refusal is not None:
                    end.transport.write(closing_answer(refusal, connection.scope["path"]))
                end.transport.close()

    async def _lend(self, connection: HTTPConnection, end: PipeEnd) -> None:
        if connection.scope["method"] != "GET":
            raise BadInput("A WebSocket is opened with GET.")
        async with self._callers.admitted(connection) as (call, client):
            if call.rest:
                await self._join(connection, end, *self._tunnels.socket_of(call))
                return
            async with AsyncExitStack() as held:
                async with while_there(end.over):
                    lease = await held.enter_async_context(self._callers.lent(call, client))
                    url = await socket_of(lease)
                await self._join(connection, end, lease, url)

    async def _join(self, connection: HTTPConnection, end: PipeEnd, lease: GateLease, url: SplitResult) -> None:
        began_s, why = now_s(), "the gate failed"
        slot, head = await shake_hands(lease, url, passed_on(connection.scope["headers"]))
        end.transport.write(head)
        pipe = Pipe(lease, end, slot)
        try:
            why = await pipe.run(self._callers.idle_s(lease))
        finally:
            why, lasted_s = lease.why_lost() or why, round(now_s() - began_s, 1)
            _log.info("gate connection ended", slot=lease.slot.id, label=lease.slot.label, seconds=lasted_s, why=why)


def serve_gate(settings: Settings, url: str) -> int:
    """Serve until SIGTERM or SIGINT, and return the exit code."""
    set_bounds(settings)
    GateProtocol.server_of_gate = gate = GateServer(settings, url)
    # asyncio's own loop: uvloop would send past `LeasedSocket`.
    own = {"host": settings.gate_host, "port": settings.gate_port, "http": GateProtocol, "loop": "asyncio"}
    server = uvicorn.Server(uvicorn.Config(gate.app, **{**server_options(settings), **own}))
    _log.info("gate starting", host=settings.gate_host, port=settings.gate_port, hub=url)
    if not is_loopback(settings.gate_host) and not settings.tls_cert:
        _log.warning("no tls", host=settings.gate_host, why="secrets can be read on their way: see HUB_TLS_CERT")
    server.run()
    return 0 if server.started else 1
