"""The walks of the architecture page, against the code: a call is traced, and takes the way that the page tells."""

from __future__ import annotations

import re
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import httpx
import orjson

from hub.api.app import create_app
from hub.recovery.file import read_sources
from hub.recovery.kinds import open_records
from hub.recovery.levels import Levels
from hub.recovery.service import RecordSweeperService
from hub.recovery.webhook import Webhook
from hub.sweeping.loop import SweepLoop
from tests.api.roads import Ordinary, Road, Shortcut
from tests.manual.pages import MANUAL, TOP, rows
from tests.world import age_node, publish, settings_for, sweepers

PAGE = (MANUAL / "architecture.md").read_text()
SECTION = PAGE.partition("\n## Walks\n")[2].partition("\n## ")[0]
WALKS = {
    title: re.findall(r"(?m)^\d+\. `([^`]+)`", text)
    for title, text in re.findall(r"(?ms)^### (.+?)\n(.*?)(?=^##|\Z)", SECTION)
}


class Trace:
    """The files of the hub whose functions ran, each once, in the order of their first calls, and the commands sent."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self.commands: set[str] = set()

    @contextmanager
    def on(self) -> Iterator[None]:
        """Note what runs within the block."""
        known = {f"{TOP / 'hub'}/"}

        def note(frame: FrameType, event: str, _: Any) -> None:
            name = frame.f_code.co_filename
            if event == "call" and name.startswith(tuple(known)):
                if (path := str(Path(name).relative_to(TOP))) not in self.files:
                    self.files.append(path)
                if frame.f_code.co_qualname == "Store.call":
                    self.commands.add(f"lua/commands/{frame.f_locals['command'].name}.lua")

        sys.setprofile(note)
        try:
            yield
        finally:
            sys.setprofile(None)


def python(walk: str) -> list[str]:
    return [path for path in WALKS[walk] if path.endswith(".py")]


def taken(trace: Trace, walk: str) -> None:
    """Hold a trace against a walk: its files ran in this order, and its command was sent."""
    wanted = python(walk)
    assert [path for path in trace.files if path in wanted] == wanted
    commands = {path for path in WALKS[walk] if path.startswith("lua/commands/")}
    assert commands <= trace.commands


def room(path: str) -> str:
    """Return the folder of a file, or the file itself where it lies directly in `hub/api/`."""
    folder = str(Path(path).parent)
    return path if folder == "hub/api" else folder


def test_each_walk_through_the_code_is_short_and_visits_no_package_twice():
    assert list(WALKS) == ["A heartbeat", "A borrow", "A claim", "A node's death", "A stuck record"]
    for walk, files in WALKS.items():
        assert 4 <= len(files) <= 12, walk
        assert [path for path in files if not (TOP / path).is_file()] == []
        rooms = [room(path) for path in files]
        entered = [each for before, each in pairwise(["", *rooms]) if each != before]
        assert len(entered) == len(set(entered)), walk


def test_each_script_of_a_walk_calls_the_modules_that_follow_it():
    for walk, files in WALKS.items():
        scripts = [path for path in files if path.startswith("lua/")]
        text = "".join((TOP / path).read_text() for path in scripts)
        for path in scripts[1:]:
            assert f"{Path(path).stem}." in text.replace(f"function {Path(path).stem}.", ""), (walk, path)


def test_each_of_the_eight_questions_is_answered_by_at_most_four_files():
    section = PAGE.partition("## Eight questions")[2].partition("\n## ")[0]
    answers = [cells for cells in rows(section) if cells[0].endswith("?")]
    assert len(answers) == 8
    for n, (question, files) in enumerate(answers):
        found = re.findall(r"`([^`]+)`", files)
        assert 1 <= len(found) <= (4 if n < 5 else 3), question
        assert [path for path in found if not (TOP / path).is_file()] == []


def request(path: str, body: Any) -> bytes:
    """Return a POST as it comes over a connection."""
    text = orjson.dumps(body)
    return f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\ncontent-length: {len(text)}\r\n\r\n".encode() + text


async def post(road: Road, path: str, body: Any) -> Trace:
    """Send a request over a connection, and return what ran for it."""
    trace = Trace()
    with trace.on():
        ((status, *_),), _ = await road.exchange([request(path, body)])
    assert status.split()[1] == b"200"
    return trace


async def test_a_heartbeat_a_borrow_and_a_claim_pass_the_files_that_their_walks_list(redis_server, monkeypatch):
    app = create_app(settings_for(redis_url=redis_server.url), sweep=False)
    transport = httpx.ASGITransport(app=app)  # type: ignore[arg-type]
    async with (
        app.app.router.lifespan_context(app.app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as api,
    ):
        monkeypatch.setattr(Shortcut, "serving", app.app.state.serving)
        monkeypatch.setattr(Shortcut, "known_hosts", {b"127.0.0.1"})
        await api.post("/node/register", json={"nodeId": "n1", "pools": {"gpu:a": 1}})
        worker = (await api.post("/v1/joblib/workers")).json()["id"]
        job = {"category": "analysis", "name": "Square", "schema": {}, "worker_id": worker}
        await api.put("/v1/joblib/rooms/lab/jobs", json=job)
        await api.post("/v1/joblib/rooms/lab/tasks/lab:analysis:Square", json={"payload": {}})

        beat = await post(Road(app, Shortcut), "/node/heartbeat", {"nodeId": "n1"})
        taken(beat, "A heartbeat")
        assert "hub/api/pipeline.py" not in beat.files
        borrow = await post(Road(app, Ordinary), "/session/borrow", {"label": "gpu:a"})
        taken(borrow, "A borrow")
        assert borrow.commands == {"lua/commands/capacity/lend_now.lua"}
        taken(await post(Road(app, Ordinary), "/v1/joblib/tasks/claim", {"worker_id": worker}), "A claim")


async def test_the_death_of_a_node_passes_the_files_that_its_walk_lists(redis, make_api, hub):
    async with make_api() as api:
        await publish(api, "n1", **{"gpu:a": ["s1"]})
    await hub.clock.tick()
    for node in redis.smembers("nodes"):
        age_node(redis, node, 3600)
    sweeps, trace = SweepLoop("node", 10, hub.clock, sweepers(hub)[0].sweep), Trace()
    with trace.on():
        assert await sweeps.once()
    taken(trace, "A node's death")
    assert redis.smembers("nodes") == set()


async def test_a_stuck_record_passes_the_files_that_its_walk_lists(hub, tmp_path):
    path = tmp_path / "orders.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT, updated_at TIMESTAMP, error TEXT)")
        database.execute("INSERT INTO orders VALUES (1, 'Processing', '2020-01-01 00:00:00', NULL)")
    file = tmp_path / "recovery.toml"
    file.write_text(
        f'[[sources]]\nname = "orders"\nurl = "sqlite+aiosqlite:///{path}"\ntable = "orders"\nerror_field = "error"\n'
    )
    (source,) = read_sources(file)
    records = open_records(source, hub.store, hub.settings)
    await hub.clock.tick()
    sweeper = RecordSweeperService(hub.store, hub.clock.hub_id, records, Levels(hub.store, hub.settings, Webhook(None)))
    sweeps, trace = SweepLoop("record", 900, hub.clock, sweeper.sweep), Trace()
    with trace.on():
        assert await sweeps.once()
    await records.close()
    taken(trace, "A stuck record")
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT status FROM orders").fetchall() == [("Pending",)]
