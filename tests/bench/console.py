"""The console: from an event to the pixel, 10,000 nodes listed and filtered, and what fifty open ones cost a hub."""

from __future__ import annotations

import asyncio
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import httpx
from playwright.async_api import Page
from redis import Redis

from tests.bench import fleet, machine
from tests.bench.report import Figure, Rounds
from tests.console.browser import Looker, Window, find_chromium

ADMIN_SECRET = "admin-s3"
EVENTS, CHANGES = 150, 30
NODES, LOOKS = 10_000, 9
CONSOLES = 50
BEATS, CONNECTIONS = 1_000, 50  # heartbeats a second, and the connections on which they come
LABEL, EVENTS_A_SECOND = "bench:console", 20  # a slot of it is borrowed and returned half as often
TIMEOUT_S = 3_600  # longer than the whole run, so that no node expires
ROUNDS, SECONDS = 15, 3  # at a steady rate
SLICES, SLICE_S = 500, 0.25  # at full load
SETTLED_S = 0.1  # after consoles were opened or closed
Consoles = Callable[[], AbstractContextManager[None]]
HEARTBEAT = "/node/heartbeat"

# Ends when the page has been painted with what the selector finds, and says when that was; it looks at each change.
PAINTED = """(selector) => new Promise((done) => {
  const painted = () => requestAnimationFrame(() => setTimeout(() => done(performance.timeOrigin + performance.now())));
  const look = () => document.querySelector(selector) && (watcher.disconnect(), painted(), true);
  const watcher = new MutationObserver(look);
  look() || watcher.observe(document, { childList: true, subtree: true, characterData: true, attributes: true });
})"""
# Notes of each row of the table, by its id, when it was painted.
NOTE_ROWS = """() => {
  globalThis.painted = {};
  const note = () => {
    const ids = [...document.querySelectorAll("tbody tr")].map((row) => row.dataset.id);
    const fresh = ids.filter((id) => !(id in painted));
    for (const id of fresh) painted[id] = 0;
    if (fresh.length) requestAnimationFrame(() => setTimeout(() => {
      for (const id of fresh) painted[id] = performance.timeOrigin + performance.now();
    }));
  };
  new MutationObserver(note).observe(document.querySelector("main"), { childList: true, subtree: true });
  note();
  for (const id in painted) painted[id] = -1;
}"""


def run() -> list[Figure]:
    """The browser first, then the cost of many consoles."""
    if find_chromium() is None:
        raise machine.Missing("The benchmarks need chromium, and it could not be installed: please install it.")
    with ExitStack() as stack:
        redis = stack.enter_context(machine.redis_server())
        hub = stack.enter_context(
            machine.hub_server(redis, HUB_ADMIN_SECRET=ADMIN_SECRET, HUB_NODE_TIMEOUT=str(TIMEOUT_S))
        )
        seen = asyncio.run(_in_the_browser(redis, hub))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        beats = folder / "beats"
        beats.write_text("".join(f'{{"nodeId":"{fleet.node_id(n)}","version":0}}\n' for n in range(NODES)))
        return [*seen.figures, *_cost(hub, beats, seen.calls)]


class Seen:
    """The measurements of one browser."""

    def __init__(self) -> None:
        self.figures: list[Figure] = []
        self.calls: dict[str, float] = {}  # path -> how often a second a console asks for it


async def _in_the_browser(redis: Redis, port: int) -> Seen:
    seen = Seen()
    async with _looking(port) as looker:
        seen.figures += [await _to_the_events(looker, port), await _to_the_list(looker, port)]
        await fleet.register(redis, range(NODES), timeout_s=TIMEOUT_S)
        seen.figures += await _many_nodes(looker)
        async with _node(port) as client:
            offered = {"nodeId": "busy", "policy": "reuse", "pools": {LABEL: 8}}  # one that is ended may keep one
            (await client.post("/node/register", json=offered)).raise_for_status()
        with _happenings(port):
            seen.calls = await _calls(looker)
    return seen


@asynccontextmanager
async def _looking(port: int) -> AsyncIterator[Looker]:
    """Log in, with a browser on the core of the load."""
    with machine.on_core(machine.LOAD_CORE):
        window = await Window.open()
    context = await window.context()
    looker = Looker(await context.new_page(), f"http://127.0.0.1:{port}")
    await looker.log_in(ADMIN_SECRET)
    await looker.page.wait_for_function("() => document.documentElement.dataset.stream === 'live'")
    yield looker
    await window.close()


async def _to_the_events(looker: Looker, port: int) -> Figure:
    """Nodes register at any moment, some at once; the row of each event is painted."""
    await looker.go("events?kind=node")
    await looker.page.evaluate(NOTE_ROWS)
    async with _node(port) as client:
        for number in range(EVENTS):
            (await client.post("/node/register", json={"nodeId": f"event-{number}"})).raise_for_status()
            await asyncio.sleep(random.uniform(0, 0.2))
    await looker.page.wait_for_function(f"() => Object.values(painted).filter((at) => at > 0).length >= {EVENTS}")
    painted: dict[str, float] = await looker.page.evaluate("painted")
    late = sorted(at - int(event.split("-")[0]) for event, at in painted.items() if at > 0)
    note = f"{len(late)} events, median {median(late):.0f} ms, longest {late[-1]:.0f} ms"
    return Figure("from an event to its painted row, p95", _p95(late), at_most=300, unit=" ms", note=note)


async def _to_the_list(looker: Looker, port: int) -> Figure:
    """A node is drained, or not any more, a while after the last change: its row in the list says so."""
    late = []
    await looker.go("nodes")
    async with _node(port, ADMIN_SECRET) as client:
        for number in range(CHANGES):
            await asyncio.sleep(random.uniform(1.1, 2.1))
            word, tone = (("undrain", "good"), ("drain", "held"))[number % 2 == 0]
            wanted = f"tr[data-id='event-7'] .state.{tone}:last-child"
            waiting = asyncio.create_task(_painted(looker.page, wanted))
            await asyncio.sleep(0.1)
            begun = time.time() * 1000
            (await client.post(f"/admin/nodes/event-7/{word}", json={})).raise_for_status()
            late.append(await waiting - begun)
    late.sort()
    note = f"{CHANGES} changes, median {median(late):.0f} ms, longest {late[-1]:.0f} ms"
    return Figure("from a drain to its painted row in the list, p95", _p95(late), at_most=300, unit=" ms", note=note)


async def _many_nodes(looker: Looker) -> list[Figure]:
    """Measure the scripts of the page when a long list of nodes is opened and filtered."""
    page = looker.page
    session = await page.context.new_cdp_session(page)
    await session.send("Performance.enable")
    wanted = fleet.node_id(4_711)
    listed, filtered, waits = [], [], []
    for _ in range(LOOKS):
        await looker.go("settings?q=none")
        before = await _script_ms(session)
        await page.evaluate("location.hash = '#/nodes'")
        await _painted(page, "tbody tr:nth-child(150)")
        opened = await _script_ms(session)
        begun = time.monotonic()
        await page.get_by_label("Id, label or pool contains").fill(wanted)
        await _painted(page, f"tbody tr:only-child[data-id='{wanted}']")
        waits.append((time.monotonic() - begun) * 1000)
        listed.append(opened - before)
        filtered.append(await _script_ms(session) - opened)
    both = median(a + b for a, b in zip(listed, filtered, strict=True))
    note = f"list {median(listed):.0f} ms, filter {median(filtered):.0f} ms; typing to row {median(waits):.0f} ms"
    return [Figure(f"script time, {NODES:,} nodes listed and filtered", both, at_most=100, unit=" ms", note=note)]


async def _painted(page: Page, selector: str) -> float:
    """Return when the page was painted with what the selector finds, in ms since 1970."""
    async with asyncio.timeout(30):
        return float(await page.evaluate(PAINTED, selector))


async def _script_ms(session: Any) -> float:
    found = {each["name"]: each["value"] for each in (await session.send("Performance.getMetrics"))["metrics"]}
    return float(found["ScriptDuration"]) * 1000


async def _calls(looker: Looker) -> dict[str, float]:
    """Count the calls of a page that shows the overview while events flow."""
    asked: Counter[str] = Counter()
    await looker.go("overview")
    await asyncio.sleep(2)
    looker.page.on("request", lambda request: asked.update([_path(request.url)]))
    await asyncio.sleep(20)
    return {path: count / 20 for path, count in asked.items()}


def _path(url: str) -> str:
    found = urlsplit(url)
    return f"{found.path}?{found.query}" if found.query else found.path


def _p95(found: list[float]) -> float:
    return sorted(found)[int(0.95 * len(found))]


def _node(port: int, secret: str = machine.NODE_SECRET) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers={"x-hub-secret": secret}, timeout=30)


def _cost(port: int, beats: Path, calls: dict[str, float]) -> list[Figure]:
    """Processor time at a steady rate of heartbeats, and how many fit: without consoles and with fifty, in turn, while
    the same events flow."""
    with _happenings(port), _consoles(port, calls, CONSOLES) as consoles:
        return [_at_a_steady_rate(port, beats, consoles, sum(calls.values())), _at_full_load(port, beats, consoles)]


def _at_a_steady_rate(port: int, beats: Path, consoles: Consoles, asked: float) -> Figure:
    shares: dict[bool, list[float]] = {True: [], False: []}
    for there in _in_turn(ROUNDS):
        with consoles() if there else nullcontext():
            found = machine.load(
                "paced", port, CONNECTIONS, SECONDS, HEARTBEAT, machine.NODE_SECRET, str(beats),
                str(1000 * CONNECTIONS // BEATS),
            )  # fmt: skip
        assert not found.refused, found
        shares[there].append(100 * found.cpu_s / found.seconds)
    more = median(a - b for a, b in zip(shares[True], shares[False], strict=True))
    note = f"{median(shares[True]):.1f} % of a core against {median(shares[False]):.1f} %, {asked:.1f} calls/s of each"
    name = f"what {CONSOLES} consoles cost at {BEATS:,} beats and {EVENTS_A_SECOND} events/s"
    return Figure(name, more, at_most=5, unit=" %", note=note)


def _at_full_load(port: int, beats: Path, consoles: Consoles) -> Figure:
    """Slices of one long load, each told for the processor time that the hub had in it and for the speed of its core
    meanwhile: what is asked is whether the fifty cost two in a hundred, the speed of a machine differs by a tenth from
    one second to the next, and here they share a core with Redis and wrk, which they slow down as consoles elsewhere
    would not. One stream is open all the time: else the hub would begin to read events with each opening."""
    rates: dict[bool, list[float]] = {True: [], False: []}
    by_clock: dict[bool, list[float]] = {True: [], False: []}
    with (
        _consoles(port, {}, 1) as one,
        one(),
        machine.probe() as probe,
        machine.loading("post", port, 128, HEARTBEAT, machine.NODE_SECRET, str(beats)),
    ):
        for there in _in_turn(SLICES):
            with consoles() if there else nullcontext():
                time.sleep(SETTLED_S)
                began = _state(port, probe)
                time.sleep(SLICE_S)
                beaten, spent_s, pieces, probed_s, took_s = (
                    b - a for a, b in zip(began, _state(port, probe), strict=True)
                )
            rates[there].append(beaten / spent_s * (probed_s / pieces))
            by_clock[there].append(beaten / took_s)
    rounds = Rounds.of(rates[True], rates[False])
    note = (
        f"{SLICES} pairs of {SLICE_S:g} s, {rounds.interval}; by the clock {median(by_clock[True]):,.0f}/s against "
        f"{median(by_clock[False]):,.0f}/s"
    )
    return Figure(f"heartbeats with {CONSOLES} consoles against none", rounds.median, at_least=0.98, note=note)


def _state(port: int, probe: Callable[[], tuple[int, float]]) -> tuple[float, ...]:
    return _answered(port), machine.spent_s(port), *probe(), time.monotonic()


def _in_turn(pairs: int) -> Iterator[bool]:
    """With consoles and without; which of them is first changes, so that a machine that slows down favours neither."""
    for number in range(pairs):
        yield from ((True, False), (False, True))[number % 2]


def _answered(port: int) -> float:
    """Return how many heartbeats the hub has taken; raises `AssertionError` when it has refused one."""
    text = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=30).text
    found = dict(
        re.findall(rf'^hub_http_requests_total{{code="(\d+)",.*route="{HEARTBEAT}"}} (\S+)$', text, re.MULTILINE)
    )
    assert [*found] == ["200"], found
    return float(found["200"])


@contextmanager
def _consoles(port: int, calls: dict[str, float], many: int) -> Iterator[Consoles]:
    """So many that are logged in; what is yielded has them open for a while."""
    with _beside(port, "consoles", ADMIN_SECRET, str(many)) as process:
        _tell(process, json.dumps(calls), "ready")

        @contextmanager
        def opened() -> Iterator[None]:
            _tell(process, "open", "opened")
            yield
            _tell(process, "close", "closed")

        yield opened


@contextmanager
def _happenings(port: int) -> Iterator[None]:
    with _beside(port, "happenings", machine.RUNNER_SECRET, LABEL, str(EVENTS_A_SECOND / 2)) as process:
        _tell(process, "", "ready")
        yield


@contextmanager
def _beside(port: int, module: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A module of this folder on the core of the load."""
    command = [sys.executable, "-m", f"tests.bench.{module}", f"http://127.0.0.1:{port}", *arguments]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        preexec_fn=partial(machine.keep_to, machine.LOAD_CORE),
    ) as process:  # fmt: skip
        try:
            yield process
            assert process.poll() is None, f"{module} has ended"
        finally:
            process.kill()


def _tell(process: subprocess.Popen[str], said: str, wanted: str) -> None:
    """Say a line to a process of `_beside`, and wait for its answer."""
    assert process.stdin
    assert process.stdout
    process.stdin.write(f"{said}\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    assert answer == f"{wanted}\n", (process.args, answer)
