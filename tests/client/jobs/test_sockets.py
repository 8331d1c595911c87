"""Socket.IO and providers of a manager, with a client that only remembers what it is told."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hub.client.jobs import JobManager, Worker
from hub.client.jobs import calls as calls_module
from hub.client.jobs import sockets as sockets_module
from hub.errors import ProviderNotFound
from tests.client.fake_hub import eventually
from tests.client.jobs.extensions import JOB, Files, Frames, Rotate
from tests.client.jobs.fake_jobs_hub import CLAIM, PREFIX, JobsHub, refusal, unauthorized
from tests.world import wait_until

FILES = "room-1:filesystem:local"


class Client:
    """A fake of `socketio.Client`, as far as the SDK uses it."""

    def __init__(self, connected: bool = True) -> None:
        self.connected = connected
        self.handlers: dict[str, dict[str, Callable[..., Any]]] = {"/": {}}
        self.said: list[tuple[str, dict[str, str]]] = []
        self.attempts: list[dict[str, Any]] = []
        self.failures = 0
        self.shut = False

    def on(self, event: str, handler: Callable[..., Any]) -> None:
        self.handlers["/"][event] = handler

    def emit(self, event: str, data: dict[str, str]) -> None:
        if not self.connected:
            raise ConnectionError("/ is not a connected namespace.")
        self.said.append((event, data))

    def connect(self, url: str, **options: Any) -> None:
        self.attempts.append({"url": url, **options})
        if len(self.attempts) <= self.failures:
            raise ConnectionError("nobody there")
        self.connected = True
        self.hear("connect")

    def shutdown(self) -> None:
        self.shut, self.connected = True, False

    def hear(self, event: str, *data: Any) -> None:
        self.handlers["/"][event](*data)


@pytest.fixture
def manager(hub: JobsHub) -> Iterator[Callable[..., JobManager]]:
    made: list[JobManager] = []

    def make(socket: Any, **options: Any) -> JobManager:
        made.append(JobManager("http://hub", "t0ken", socket=socket, transport=hub.transport(), **options))
        return made[-1]

    yield make
    for each in made:
        each.disconnect()


def test_rooms_are_joined_after_each_connection_and_left_at_the_end(hub: JobsHub, manager: Any) -> None:
    client = Client()
    mine = manager(client)
    mine.register(Rotate)
    mine.register_provider(Files, name="local", handler={}, room="room-1")
    worker = {"worker_id": str(mine.worker_id)}
    job, files = {"job_name": JOB, **worker}, {"provider_name": FILES, **worker}
    assert client.said == [("join_job_room", job), ("join_provider_room", files)]
    client.said.clear()
    client.hear("connect")
    assert client.said == [("join_job_room", job), ("join_provider_room", files)]
    client.said.clear()
    mine.disconnect()
    assert client.said == [("leave_job_room", job), ("leave_provider_room", files)]
    assert not client.shut


def test_connect_handlers_of_the_clients_owner_still_run(manager: Any) -> None:
    client, called = Client(), []
    client.on("connect", lambda: called.append(True))
    manager(client)
    client.hear("connect")
    assert called == [True]


def test_a_manager_works_without_a_connection(hub: JobsHub, manager: Any) -> None:
    client = Client(connected=False)
    mine = manager(client, execute=lambda task: None)
    mine.register(Rotate)
    (task_id,) = hub.add(JOB, {})
    wait_until(lambda: hub.status(task_id) == "completed")
    mine.disconnect()
    assert hub.workers == set()


def test_an_event_about_a_task_wakes_a_sleeping_manager(hub: JobsHub, manager: Any) -> None:
    client = Client()
    mine = manager(client, execute=lambda task: None, polling_interval=600)
    mine.register(Rotate)
    wait_until(lambda: len(hub.said(CLAIM)) == 1)
    (task_id,) = hub.add(JOB, {})
    client.hear("task_available", {"job_name": JOB, "room_id": "r1", "task_id": task_id})
    wait_until(lambda: hub.status(task_id) == "completed")
    assert "waitSeconds" not in hub.said(CLAIM)[0].body


def test_a_manager_makes_its_own_connection_in_the_background(
    hub: JobsHub, manager: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(connected=False)
    client.failures = 2
    monkeypatch.setattr(sockets_module, "_made", lambda *_: client)
    monkeypatch.setattr(sockets_module, "pause_s", lambda *_, **__: 0.01)
    mine = manager(True)
    mine.register(Rotate)
    wait_until(lambda: len(client.said) == 1)
    assert len(client.attempts) == 3
    assert client.attempts[0]["url"] == "http://hub"
    assert client.attempts[0]["auth"]() == {"token": "t0ken"}
    mine.disconnect()
    assert client.shut


@pytest.mark.parametrize("missing", ["socketio", "websocket"])
def test_a_missing_socket_library_is_reported_at_once(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(RuntimeError, match=r"pip install .python-socketio\[client\]"):
        JobManager("http://hub", "t0ken", socket=True)


# -- providers --------------------------------------------------------------------------------------------------------


def request_for(name: str, **params: str) -> dict[str, str]:
    return {"request_id": "hash-1", "provider_name": name, "params": json.dumps(params)}


def test_a_provider_answers_a_read(hub: JobsHub, manager: Any) -> None:
    client = Client()
    mine = manager(client)
    files = mine.register_provider(Files, name="local", handler={"/": ["a", "ä"]}, room="room-1")
    frames = mine.register_provider(Frames, name="f", handler={"7": b"\x00\xff"})
    assert mine.handlers == {FILES: {"/": ["a", "ä"]}, "@global:frames:f": {"7": b"\x00\xff"}}
    body = hub.said(f"PUT {PREFIX}/rooms/@global/providers")[0].body
    assert (body["content_type"], body["schema"]) == ("application/octet-stream", Frames.model_json_schema())
    client.hear("provider_request", request_for(FILES, path="/"))
    wait_until(lambda: len(hub.uploads) == 1)
    client.hear("provider_request", request_for("@global:frames:f", path="7"))
    wait_until(lambda: len(hub.uploads) == 2)
    assert hub.uploads == [(str(files), "hash-1", b'["a", "\\u00e4"]'), (str(frames), "hash-1", b"\x00\xff")]


def test_a_read_that_fails_or_is_for_another_provider_is_not_answered(hub: JobsHub, manager: Any) -> None:
    client = Client()
    mine = manager(client)
    mine.register_provider(Files, name="local", handler={"/": 1}, room="room-1")
    client.hear("provider_request", request_for("room-1:filesystem:other", path="/"))
    client.hear("provider_request", request_for(FILES, path="/nowhere"))
    client.hear("provider_request", {**request_for(FILES), "params": "no JSON"})
    client.hear("provider_request", "nonsense")
    client.hear("provider_request", request_for(FILES, path="/"))
    wait_until(lambda: len(hub.uploads) == 1)
    assert mine.failure is None


def test_a_read_that_hangs_delays_no_other(hub: JobsHub, manager: Any) -> None:
    go = threading.Event()

    class Hangs(Files):
        def read(self, handler: Any) -> Any:
            return go.wait(20) if self.path == "slow" else "quick"

    client = Client()
    manager(client).register_provider(Hangs, name="local", handler=None, room="room-1")
    client.hear("provider_request", request_for(FILES, path="slow"))
    client.hear("provider_request", request_for(FILES, path="quick"))
    wait_until(lambda: [content for *_, content in hub.uploads] == [b'"quick"'])
    go.set()
    wait_until(lambda: len(hub.uploads) == 2)


@pytest.mark.parametrize("answer", [unauthorized, lambda _: refusal(404, "provider-not-found")])
def test_a_permanently_refused_upload_ends_the_worker(hub: JobsHub, manager: Any, answer: Any) -> None:
    client = Client()
    mine = manager(client)
    mine.register_provider(Files, name="local", handler={"/": 1}, room="room-1")
    hub.refused_upload = answer(None)
    client.hear("provider_request", request_for(FILES, path="/"))
    mine.wait()
    assert mine.failure is not None


def test_a_provider_is_unregistered(hub: JobsHub, manager: Any) -> None:
    client = Client()
    mine = manager(client)
    provider_id = mine.register_provider(Files, name="local", handler={}, room="room-1")
    hub.say(f"DELETE {PREFIX}/providers/{provider_id}", lambda _: refusal(404, "provider-not-found"))
    with pytest.raises(ProviderNotFound):
        mine.unregister_provider(FILES)
    mine.register_provider(Files, name="local", handler={}, room="room-1")
    mine.unregister_provider(FILES)
    mine.unregister_provider("never:was:there")
    assert client.said[-1] == ("leave_provider_room", {"provider_name": FILES, "worker_id": str(mine.worker_id)})
    assert mine.handlers == {}


async def test_a_worker_joins_its_rooms_and_is_woken(hub: JobsHub) -> None:
    hub.holds = False
    client = Client()
    worker = Worker(
        "http://hub", "t0ken", socket=client, polling_interval=600, transport=hub.async_transport(),
        sync_transport=hub.transport(),
    )  # fmt: skip

    @worker.job("modifiers", "Rotate")
    async def rotate(payload: Any, task: Any) -> None: ...

    async with worker:
        assert client.said == [("join_job_room", {"job_name": JOB, "worker_id": worker.worker_id})]
        await eventually(lambda: len(hub.said(CLAIM)) > 3)
        (task_id,) = hub.add(JOB, {})
        client.hear("task_available", {})
        await eventually(lambda: hub.status(task_id) == "completed")
        hub.forget_workers()
        client.hear("task_available", {})
        await eventually(lambda: len(client.said) == 2)
        assert client.said[1][1]["worker_id"] == worker.worker_id


def test_an_upload_that_fails_for_now_does_not_end_the_worker(
    hub: JobsHub, manager: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls_module, "TROUBLE_S", 0.0)
    client = Client()
    mine = manager(client)
    mine.register_provider(Files, name="local", handler={"/": 1}, room="room-1")
    hub.refused_upload = refusal(503, "store-unavailable")
    client.hear("provider_request", request_for(FILES, path="/"))
    wait_until(lambda: not any(thread.name == "provider" for thread in threading.enumerate()))
    hub.away, hub.refused_upload = True, None
    client.hear("provider_request", request_for(FILES, path="/"))
    wait_until(lambda: not any(thread.name == "provider" for thread in threading.enumerate()))
    hub.away = False
    client.hear("provider_request", request_for(FILES, path="/"))
    wait_until(lambda: len(hub.uploads) == 1)
    assert mine.failure is None


def test_a_connection_made_after_the_end_is_closed(hub: JobsHub, manager: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    began, go = threading.Event(), threading.Event()

    class Slow(Client):
        def connect(self, url: str, **options: Any) -> None:
            began.set()
            go.wait(20)
            super().connect(url, **options)

        def shutdown(self) -> None:
            if not self.connected:
                raise OSError("not connected")
            super().shutdown()

    client = Slow(connected=False)
    monkeypatch.setattr(sockets_module, "_made", lambda *_: client)
    mine = manager(True)
    mine.register(Rotate)
    began.wait(10)
    mine.disconnect()
    go.set()
    wait_until(lambda: client.shut)
