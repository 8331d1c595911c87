"""Measure what a gate adds to each message, and how soon a fresh browser answers a caller that connects through it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import httpx
from playwright.async_api import async_playwright
from websockets.asyncio.client import ClientConnection, connect

from tests.bench import machine
from tests.bench.report import Figure
from tests.console.browser import find_chromium
from tests.gate.browsers import DevTools
from tests.world import answers, free_port, wait_until

MESSAGES, ROUNDS = 1_000, 6
BROWSERS, TASKS = 8, 100
IDLE_S = 0.2  # without a moment of the processor
MESSAGE = bytes([0x82, 0x80 | 100]) + bytes(4 + 100)  # a masked frame of 100 bytes
ECHO = Path(__file__).parent.parent / "races" / "echo_slot.py"
# A node that lends the slots of its arguments, LABEL=ADDRESS each.
AGENT = """
import asyncio, os, sys
from hub.client import NodeAgent
async def main():
    given = [dict(zip(("labelKey", "endpoint"), each.split("="))) for each in sys.argv[1:]]
    async with NodeAgent(f"n{os.getpid()}", slots=given):
        await asyncio.Event().wait()
asyncio.run(main())
"""


def run() -> list[Figure]:
    """Measure messages first, then browsers."""
    with machine.redis_server() as redis, machine.hub_server(redis) as hub, _gate(hub) as (port, gate):
        figures = _messages(hub, port)
        if find_chromium() is None:
            raise machine.Missing("this benchmark needs a Chromium: make servers")
        with machine.on_core(*machine.CORES):  # as many as a browser uses
            return [*figures, *asyncio.run(_browsers(hub, port, gate))]


@contextlib.contextmanager
def _gate(hub: int) -> Iterator[tuple[int, int]]:
    """`hub gate` on the core that is measured; yields its port and its process id."""
    port = free_port()
    environment = {"HUB_URL": f"http://127.0.0.1:{hub}", "HUB_GATE_PORT": str(port), "LOG_LEVEL": "WARNING"}
    command = [sys.executable, "-m", "hub.cli", "gate"]
    with machine.process(command, machine.SERVER_CORE, environment, until_it_waits=True) as process:
        wait_until(lambda: answers(port, "/health"), 60)
        yield port, process.pid


@contextlib.contextmanager
def _agent(hub: int, *slots: str) -> Iterator[int]:
    """A node with these slots; yields its process id."""
    environment = {"HUB_URL": f"http://127.0.0.1:{hub}", "HUB_NODE_SECRET": machine.NODE_SECRET}
    with machine.process([sys.executable, "-c", AGENT, *slots], machine.LOAD_CORE, environment) as process:
        yield process.pid


def _messages(hub: int, port: int) -> list[Figure]:
    echo = free_port()
    with (
        tempfile.TemporaryDirectory(prefix="hub-bench-") as folder,
        machine.process(
            [sys.executable, str(ECHO), str(echo), f"{folder}/ledger"], machine.LOAD_CORE, until_it_waits=True
        ),
        _agent(hub, f"echo:one=ws://127.0.0.1:{echo}"),
        machine.on_core(machine.LOAD_CORE, until_it_waits=True),
    ):
        through = f"GET /connect/echo:one HTTP/1.1\r\nHost: 127.0.0.1\r\nx-hub-secret: {machine.RUNNER_SECRET}\r\n"
        direct = "GET / HTTP/1.1\r\nx-hub-lease-token: 1\r\n"
        found: dict[str, list[float]] = {"gate": [], "direct": []}
        with _opened(port, through) as gate, _opened(echo, direct) as plain:
            for number in range(ROUNDS + 1):  # the first warms up
                for name, wire in (("gate", gate), ("direct", plain)):
                    times = [_exchange(wire) for _ in range(MESSAGES)]
                    found[name] += times if number else []
    mid = {name: median(times) * 1000 for name, times in found.items()}
    late = {name: sorted(times)[len(times) * 99 // 100] * 1000 for name, times in found.items()}
    note = f"{mid['gate']:.3f} against {mid['direct']:.3f} ms, there and back"
    tail = f"{late['gate']:.3f} against {late['direct']:.3f} ms"
    return [
        Figure(
            "a message through a gate, more than directly",
            mid["gate"] - mid["direct"],
            at_most=0.5,
            unit=" ms",
            note=note,
        ),
        Figure("the same at p99", late["gate"] - late["direct"], at_most=3.0, unit=" ms", note=tail),
    ]


@contextlib.contextmanager
def _opened(port: int, head: str) -> Iterator[socket.socket]:
    wait_until(lambda: _listens(port))
    with socket.create_connection(("127.0.0.1", port)) as wire:
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        wire.sendall(f"{head}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n".encode())
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += wire.recv(4096)
        assert b" 101 " in answer, answer
        yield wire


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


def _exchange(wire: socket.socket) -> float:
    started, left = time.perf_counter(), len(MESSAGE)
    wire.sendall(MESSAGE)
    while left:
        left -= len(wire.recv(65_536))
    return time.perf_counter() - started


async def _browsers(hub: int, port: int, gate: int) -> list[Figure]:
    arguments = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    connected, first, cold = [], [], []
    async with async_playwright() as playwright:
        for number in range(BROWSERS + 1):
            for times, use in ((first, _first_answer), (connected, playwright.chromium.connect_over_cdp)):
                with _lent(hub, port) as (url, _, browser):
                    await _warm(url)
                    await asyncio.to_thread(_until_idle, browser)
                    started = time.perf_counter()
                    found = await use(url)
                    times.append(time.perf_counter() - started)
                    await found.close()
            started = time.perf_counter()
            fresh = await playwright.chromium.launch(executable_path=find_chromium(), args=arguments)
            cold.append(time.perf_counter() - started)
            await fresh.close()
            if not number:
                connected.clear(), first.clear(), cold.clear()
    cpu_ms = await _cpu(hub, port, gate)
    note = (
        f"{median(first) * 1000:.1f} ms to the first answer of DevTools; a cold launch() {median(cold) * 1000:.0f} ms"
    )
    return [
        Figure("connect_over_cdp to a fresh browser", median(connected) * 1000, at_most=60.0, unit=" ms", note=note),
        Figure("processor time of agent, hub and gate per browser task", cpu_ms, at_most=30.0, unit=" ms"),
    ]


@contextlib.contextmanager
def _lent(hub: int, port: int) -> Iterator[tuple[str, int, int]]:
    """A browser with a label of its own, lent by a node of its own; yields its URL at the gate, and the process ids of
    node and browser."""
    with DevTools() as browser:
        label = f"browser:b{browser.process.pid}"
        with _agent(hub, f"{label}={browser.address}") as agent:
            head = {"x-hub-secret": machine.RUNNER_SECRET}
            wait_until(lambda: label in httpx.get(f"http://127.0.0.1:{port}/", headers=head, timeout=20).text)
            yield f"ws://127.0.0.1:{port}/connect/{label}?token={machine.RUNNER_SECRET}", agent, browser.process.pid


def _until_idle(browser: int) -> None:
    """Return once a browser has nothing left to do of what came before."""
    spent_s = -1.0
    while spent_s != (spent_s := machine.spent_by_s(browser)):
        time.sleep(IDLE_S)


async def _first_answer(url: str) -> ClientConnection:
    wire = await connect(url, proxy=None, compression=None, max_size=None)
    await wire.send(json.dumps({"id": 1, "method": "Browser.getVersion"}))
    await wire.recv()
    return wire


async def _warm(url: str) -> None:
    """Open and close a page, as a node does before it lends a browser."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.connect_over_cdp(url)
        page = await browser.new_page()
        await page.evaluate("1")
        await page.close()
        await browser.close()


async def _cpu(hub: int, port: int, gate: int) -> float:
    """Return the milliseconds of agent, hub and gate per connection that asks one thing."""
    with _lent(hub, port) as (url, agent, _):
        await _warm(url)
        before = machine.spent_s(hub) + machine.spent_by_s(gate) + machine.spent_by_s(agent)
        for _ in range(TASKS):
            await (await _first_answer(url)).close()
        after = machine.spent_s(hub) + machine.spent_by_s(gate) + machine.spent_by_s(agent)
    return (after - before) / TASKS * 1000
