"""Gates in processes of their own, and slots that note what reaches them."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import signal
import time
from pathlib import Path
from typing import Any, Self

import httpx
from websockets.asyncio.client import ClientConnection, connect

from hub.client import NodeAgent
from tests.world import HubProcess, LoggedProcess, answers, free_port, wait_until

LABEL = "echo:one"
_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # of RFC 6455


class GateProcess(LoggedProcess):
    """`hub gate` in a process of its own. `with GateProcess(hub) as gate:` waits until it answers."""

    def __init__(self, hub: HubProcess, before: str = "", **environment: str) -> None:
        """`before` is code that its process runs first."""
        self.port = int(environment.get("HUB_GATE_PORT", 0)) or free_port()
        self.host = f"127.0.0.1:{self.port}"
        self.secret = hub.runner_secret
        super().__init__(["gate"], {"HUB_URL": hub.url, **environment, "HUB_GATE_PORT": str(self.port)}, before=before)

    def __enter__(self) -> Self:
        wait_until(lambda: answers(self.port, "/health"), 60, lambda: f"the gate did not come up:\n{self.log()}")
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.signal(signal.SIGCONT)
        self.kill()

    def stop_for_now(self) -> None:
        """SIGSTOP, and wait until it stands still."""
        self.signal(signal.SIGSTOP)
        state = Path(f"/proc/{self.process.pid}/stat")
        wait_until(lambda: state.read_text().rpartition(")")[2].split()[0] == "T")

    def open(self, label: str = LABEL, query: str = "", **options: Any) -> connect:
        """Return a WebSocket to be opened, with the secret as a header."""
        headers = {"x-hub-secret": self.secret, **options.pop("headers", {})}
        url = f"ws://{self.host}/connect/{label}{query}"
        return connect(url, additional_headers=headers, compression=None, proxy=None, **options)

    def http(self, **options: Any) -> httpx.AsyncClient:
        """Return an HTTP client of the gate, with the secret as a header."""
        headers = {"x-hub-secret": self.secret, **options.pop("headers", {})}
        return httpx.AsyncClient(base_url=f"http://{self.host}", headers=headers, timeout=30, **options)


class EchoSlot:
    """A server that sends back what it gets, frame or not, and notes each piece: when, under which token, how much."""

    def __init__(self, ledger: Path | None = None) -> None:
        self.pieces: list[tuple[float, str, int]] = []
        self.heads: list[str] = []
        self.writers: list[asyncio.StreamWriter] = []
        self._ledger = ledger.open("a") if ledger else None

    async def __aenter__(self) -> Self:
        await self.start(free_port())
        return self

    async def start(self, port: int) -> None:
        """Listen on this port."""
        self.port = port
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", port)

    async def __aexit__(self, *_: object) -> None:
        self.server.close()
        for writer in self.writers:
            writer.close()

    @property
    def address(self) -> str:
        """Return the address that its node publishes."""
        return f"ws://127.0.0.1:{self.port}/echo"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            names = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:-2])
            token = names["x-hub-lease-token"]
            self.heads.append(head.decode())
            self._note(token, len(head))
            key = base64.b64encode(hashlib.sha1(names["sec-websocket-key"].encode() + _MAGIC).digest()).decode()
            writer.write(
                f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                f"Set-Cookie: hub=slot\r\nX-Of-Slot: yes\nset-cookie: a=b\r\n"
                f"Sec-WebSocket-Accept: {key}\r\n\r\n".encode()
            )
            while piece := await reader.read(65_536):
                self._note(token, len(piece))
                writer.write(unmasked(piece))
                await writer.drain()
                if piece[0] == 0x88:  # a close frame, answered
                    break
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    def _note(self, token: str, size: int) -> None:
        self.pieces.append((time.time(), token, size))
        if self._ledger:
            self._ledger.write(json.dumps(self.pieces[-1]) + "\n")
            self._ledger.flush()


def unmasked(frames: bytes) -> bytes:
    """Return frames of a client as a server would send them; only short frames, whole ones; other bytes as they are."""
    found, rest = b"", frames
    while len(rest) >= 6 and rest[1] & 0x80 and (size := rest[1] & 0x7F) < 126 and len(rest) >= 6 + size:
        mask, body = rest[2:6], rest[6 : 6 + size]
        found += bytes((rest[0], size)) + bytes(byte ^ mask[n % 4] for n, byte in enumerate(body))
        rest = rest[6 + size :]
    return found + rest


def node_of(hub: HubProcess, slots: dict[str, str], label: str = LABEL, **options: Any) -> NodeAgent:
    """Return a node that lends these slots: id -> address."""
    given = [{"slotId": name, "labelKey": label, "webSocketEndpoint": address} for name, address in slots.items()]
    return NodeAgent("n1", slots=given, url=hub.url, secret=hub.node_secret, **options)


async def said(socket: ClientConnection, text: str) -> str:
    """Return what the slot answers to this text."""
    await socket.send(text)
    return str(await socket.recv())
