"""Redis is lost at an unexpected moment: between the check and the opening, and half a connection."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import threading
import time
from collections.abc import Iterator

import pytest
import uvloop

from hub.errors import StoreUnavailable
from hub.store.connection import open_store
from hub.store.silence import AFTER_S, SILENT_S
from tests.replicas import Server
from tests.world import HubProcess, RedisServer, settings_for, wait_until


class Failing:
    """Stands between a hub and Redis, and is gone for good once it has seen a word so many times."""

    def __init__(self, port: int, word: bytes, times: int) -> None:
        self._port, self._word, self._left = port, word.lower(), times
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open: list[socket.socket] = [self._listener]
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._port))
                self._open += [near, far]
                threading.Thread(target=self._pass_on, args=(near, far, True), daemon=True).start()
                threading.Thread(target=self._pass_on, args=(far, near, False), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, watched: bool) -> None:
        with contextlib.suppress(OSError):
            while said := source.recv(1 << 20):
                if watched and self._seen(said.lower().count(self._word)):
                    self.end()
                    return
                sink.sendall(said)

    def _seen(self, times: int) -> bool:
        with self._lock:
            self._left -= times
            return self._left <= 0

    def end(self) -> None:
        for each in self._open:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


async def test_a_call_after_a_restart_waits_until_the_store_of_the_new_server_is_open(tmp_path):
    server = Server(tmp_path, "save ''")
    try:
        async with open_store(settings_for(f"redis://127.0.0.1:{server.port}")) as store:
            with server.client() as plain:
                plain.save()
            before = await store.read("HGET", store.keys.store, "generation")
            server.kill()
            server.start()
            assert await store.read("HGET", store.keys.store, "generation") not in ("", None, before)
    finally:
        server.kill()


@pytest.fixture
def failing(redis_server: RedisServer, request: pytest.FixtureRequest) -> Iterator[Failing]:
    word, times = request.param
    redis_server.client().function_flush()
    found = Failing(redis_server.port, word, times)
    yield found
    found.end()


CHECKS = b"return 1"  # asked of a server before the library is loaded
OPENS = b"_store_open"  # in the library, which the first hub loads, and in each call that opens the store


@pytest.mark.parametrize(
    "failing",
    [(CHECKS, 1), (OPENS, 2), (CHECKS, 2), (OPENS, 3)],
    ids=["in the check", "in the opening", "in the second check", "in the second opening"],
    indirect=True,
)
def test_a_hub_whose_redis_fails_during_its_start_reports_it_in_one_sentence(failing: Failing) -> None:
    hub = HubProcess({"HUB_REDIS_URL": f"redis://127.0.0.1:{failing.port}"})
    try:
        wait_until(lambda: hub.process.poll() is not None, 60, hub.log)
        assert hub.process.returncode not in (0, None)
    finally:
        hub.kill()
    assert hub.log().count(" does not answer: ") == 1, hub.log()
    assert "Traceback" not in hub.log(), hub.log()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # redis-py closes no half of a stream
@pytest.mark.parametrize("how", ["abort", "close", "write_eof"])
def test_a_half_closed_subscription_counts_as_an_outage_and_the_next_one_works(
    redis_server: RedisServer, how: str
) -> None:
    async def listen() -> None:
        async with open_store(settings_for(redis_server.url)) as store, store.notifications.listen("a"):
            assert store.notifications._pubsub is not None
            connection = store.notifications._pubsub.connection
            getattr(connection._writer.transport, how)()
            for _ in range(5):  # one that is refused; nothing else may come
                with contextlib.suppress(StoreUnavailable):
                    async with store.notifications.listen("b") as subscription:
                        redis_server.client().publish("b", "")
                        if await subscription.wait(10):
                            return
            raise AssertionError("it is never heard again")

    for run in (uvloop.run, asyncio.run):
        run(listen())
    gc.collect()  # here, where it is known what was left open, and not in a later test


async def test_a_hub_that_stood_still_lets_another_hub_open_an_empty_store(redis_server, redis, monkeypatch):
    settings = settings_for(redis_server.url)
    async with open_store(settings) as asleep, open_store(settings) as awake:
        for store in (asleep, awake):
            store.ticks = True
            store.tick_is_over(heard=True)
        asleep.hear(str(asleep.generation), asleep.clock_ms, 0)
        awake.hear(str(awake.generation), awake.clock_ms + 60_000, 0)  # what it heard while the other stood still
        later_s = time.monotonic() + SILENT_S + 1
        monkeypatch.setattr(time, "monotonic", lambda: later_s)
        awake.silence.ticked()
        redis.flushall()
        with pytest.raises(StoreUnavailable, match="stood still"):
            await asleep.open()
        assert redis.exists("hub:store") == 0
        await awake.open()
        await asleep.open()
        assert asleep.clock_ms == awake.clock_ms >= 60_000


async def test_a_hub_that_stood_still_opens_an_empty_store_if_no_other_does_within_a_second(
    redis_server, redis, monkeypatch
):
    async with open_store(settings_for(redis_server.url)) as store:
        store.ticks = True
        store.tick_is_over(heard=True)
        redis.flushall()
        now_s = time.monotonic() + SILENT_S + 1
        monkeypatch.setattr(time, "monotonic", lambda: now_s)
        with pytest.raises(StoreUnavailable, match="stood still"):
            await store.open()
        now_s += AFTER_S
        await store.open()
        assert redis.exists("hub:store") == 1
