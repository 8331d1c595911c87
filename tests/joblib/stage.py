"""Hubs on a Redis of their own, for as long as a few tests need them."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.joblib.people import LONGEST_S, TOKENS, Person
from tests.world import HubProcess, RedisServer, wait_until

DEFAULT_S = 4
CALM = {  # no worker is ever removed for silence or for hanging up, however long the tests take
    "HUB_WORKER_TIMEOUT_SECONDS": "36000",
    "HUB_SWEEPER_INTERVAL_SECONDS": "1800",
    "HUB_PROVIDER_LONG_POLL_DEFAULT_SECONDS": str(DEFAULT_S),
    "HUB_PROVIDER_LONG_POLL_MAX_SECONDS": str(LONGEST_S),
    "HUB_LONG_POLL_MAX_WAIT_SECONDS": str(LONGEST_S),
    "HUB_SIO_DISCONNECT_GRACE_SECONDS": "36000",
}
NO_BRAKE = {"HUB_SWEEPER_BRAKE_MIN": "1000000"}  # tests leave so many silent workers behind that it would engage
# Long enough that a heartbeat or a reconnect is in time although its process, or a hub, stood still a while.
TIMEOUT_S, INTERVAL_S, GRACE_S = 6.0, 0.5, 4.0
LOOK_S = 1.0  # how late a hub may notice that a client has hung up, or that something is due
QUICK = {
    **NO_BRAKE,
    "HUB_WORKER_TIMEOUT_SECONDS": str(TIMEOUT_S),
    "HUB_SWEEPER_INTERVAL_SECONDS": str(INTERVAL_S),
    "HUB_SIO_DISCONNECT_GRACE_SECONDS": str(GRACE_S),
}


class Stage:
    """A Redis server with an append-only file, and hubs on it that know the tokens."""

    def __init__(self, folder: Path, http: httpx.Client) -> None:
        self.folder = folder
        self.http = http
        self.server = RedisServer(folder, append_fsync="always")
        self.hubs: list[HubProcess] = []
        (folder / "tokens.toml").write_text(TOKENS)

    def start(self, count: int = 1, **environment: str) -> None:
        """Start the Redis server and so many hubs."""
        self.server.start()
        for _ in range(count):
            self.hubs.append(HubProcess(self._environment(environment)))
        for hub in self.hubs:
            self._wait_for(hub)

    def _environment(self, more: dict[str, str]) -> dict[str, str]:
        return {"HUB_REDIS_URL": self.server.url, "HUB_TOKENS_FILE": str(self.folder / "tokens.toml"), **more}

    def _wait_for(self, hub: HubProcess) -> None:
        def ready() -> bool:
            assert hub.process.poll() is None, hub.log()
            with contextlib.suppress(httpx.HTTPError):
                return self.http.get(f"{hub.url}/health/ready").status_code == 200
            return False

        wait_until(ready, 90, hub.log)

    def restart_hub(self, *, crash: bool = False, away_s: float = 0, **changes: str) -> None:
        """End the first hub, politely or not, and start it again on its port, perhaps with other settings."""
        old = self.hubs[0]
        if not crash:
            old.signal(signal.SIGTERM)
            old.process.wait(60)
        old.kill()
        again = {name: value for name, value in old.environment.items() if name.startswith("HUB_")}
        time.sleep(away_s)
        self.hubs[0] = HubProcess({**again, **changes})
        self._wait_for(self.hubs[0])

    @contextmanager
    def without_redis(self) -> Iterator[None]:
        """Redis is away while the block runs, and comes back with what it has on disk."""
        self.server.kill()
        try:
            yield
        finally:
            self.server.start()

    @contextmanager
    def hanging_redis(self) -> Iterator[None]:
        """Redis takes connections and answers nothing while the block runs."""
        process = int(self.server.client().info("server")["process_id"])
        os.kill(process, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(process, signal.SIGCONT)

    @property
    def urls(self) -> list[str]:
        """Where the hubs are."""
        return [hub.url for hub in self.hubs]

    def waiting(self, about: str, hubs: int = 1) -> None:
        """Wait until so many hubs listen for news of a task, a job or a hash."""
        about = about.replace("-", "")
        with contextlib.closing(self.server.client()) as client:

            def so() -> bool:
                channels = [channel for channel in client.pubsub_channels() if about in channel]
                return sum(heard for _, heard in client.pubsub_numsub(*channels)) >= hubs if channels else False

            wait_until(so)

    def clock_s(self) -> float:
        """Return the hub clock in seconds: it stands still while the hubs do, as on a busy machine."""
        with contextlib.closing(self.server.client()) as client:
            return int(client.hget("hub:store", "clock_ms")) / 1000

    def person(self, token: str | None) -> Person:
        """Return a user who asks the hubs in turn."""
        return Person(self.http, self.urls, token)

    def stop(self) -> None:
        """End everything."""
        for hub in self.hubs:
            hub.kill()
        self.server.stop()


@contextmanager
def stage(http: httpx.Client, count: int = 1, **environment: str) -> Iterator[Stage]:
    """`with stage(http, 2, HUB_WORKER_TIMEOUT_SECONDS="2") as found:`"""
    folder = Path(tempfile.mkdtemp(prefix="hub-joblib-"))
    found = Stage(folder, http)
    try:
        found.start(count, **environment)
        yield found
    finally:
        found.stop()
        shutil.rmtree(folder, ignore_errors=True)
