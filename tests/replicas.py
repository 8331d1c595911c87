"""A primary with replicas, watched over by Sentinels: real servers that a test may stop, kill and fail over."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

from redis import Redis
from redis.exceptions import RedisError

from tests.races.wires import Wires
from tests.world import free_port, wait_until

SERVICE = "hub"
DOWN_MS = 1000  # a primary that is silent for so long is taken to be down


# What a server asks for the time of day; durations it measures otherwise. libfaketime does not go with jemalloc.
_OFF = """
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static long off(void) { return atol(getenv("TEST_CLOCK_OFF_S")); }
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    long failed = syscall(SYS_gettimeofday, now, zone);
    now->tv_sec += off();
    return failed;
}
time_t time(time_t *kept) {
    struct timeval now;
    gettimeofday(&now, 0);
    if (kept) *kept = now.tv_sec;
    return now.tv_sec;
}
"""


def clock_off(folder: Path, seconds: int) -> dict[str, str]:
    """Return the environment of a server whose time of day is off by so much."""
    compiler = shutil.which("cc")
    assert compiler, "the tests need a C compiler: a server with a wrong clock is one whose library lies to it"
    library = folder / "off.so"
    command = [compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)]
    subprocess.run(command, input=_OFF, text=True, check=True)
    return {"LD_PRELOAD": str(library), "TEST_CLOCK_OFF_S": str(seconds)}


class Server:
    """One `redis-server`, as a replica of another one where that is given, or as a Sentinel."""

    def __init__(
        self,
        folder: Path,
        *lines: str,
        sentinel: bool = False,
        port: int | None = None,
        known: int | None = None,
        off_s: int = 0,
    ) -> None:
        """`off_s`: by how much its clock is wrong."""
        self.port = port or free_port()
        self.known = known or self.port  # the port at which others find it
        self._folder = folder / str(self.port)
        self._folder.mkdir(parents=True)
        if known:
            lines = ("replica-announce-ip 127.0.0.1", f"replica-announce-port {known}", *lines)
        lines = ("bind 127.0.0.1", f"port {self.port}", f"dir {self._folder}", *lines, "")
        (self._folder / "redis.conf").write_text("\n".join(lines))
        self._sentinel = sentinel
        self._environment = {**os.environ, **(clock_off(self._folder, off_s) if off_s else {})}
        self.start()

    def start(self) -> None:
        """Start it with what its folder holds, and wait until it answers."""
        binary = shutil.which("redis-server")
        assert binary, "the tests need redis-server on the PATH"
        command = [binary, str(self._folder / "redis.conf"), *(["--sentinel"] if self._sentinel else [])]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, env=self._environment, stdout=log, stderr=log)
        try:
            wait_until(self.answers, 60, lambda: (self._folder / "log").read_text())
        except AssertionError:
            self.kill()
            raise

    def answers(self) -> bool:
        """Return whether the server takes commands."""
        with contextlib.suppress(RedisError), self.client(socket_timeout=5) as client:
            return bool(client.ping())
        return False

    def client(self, **options: Any) -> Redis:
        """Return a plain client, text in and out."""
        return Redis("127.0.0.1", self.port, decode_responses=True, **options)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self._process.pid, number)

    def kill(self) -> None:
        """SIGKILL, as a crash would; safe when it has ended or stands still."""
        self._process.kill()
        self._process.wait()


class Trio:
    """A primary, two replicas and three Sentinels; `wired`: with something in front of each server that can be cut;
    `off_s`: by how much the clock of each server is wrong.
    """

    def __init__(self, folder: Path, *lines: str, wired: bool = False, off_s: tuple[int, int, int] = (0, 0, 0)) -> None:
        quick = ("save ''", "repl-diskless-sync yes", "repl-diskless-sync-delay 0", *lines)
        ports = [free_port() for _ in range(3)]
        self.wires = Wires(ports) if wired else None
        known = self.wires.ports if self.wires else [None] * 3
        first = Server(folder, *quick, port=ports[0], known=known[0], off_s=off_s[0])
        replicaof = f"replicaof 127.0.0.1 {first.known}"
        others = [Server(folder, *quick, replicaof, port=ports[n], known=known[n], off_s=off_s[n]) for n in (1, 2)]
        self.servers = [first, *others]
        wait_until(lambda: self._connected(first) == 2)
        watch = (
            f"sentinel monitor {SERVICE} 127.0.0.1 {first.known} 2",
            f"sentinel down-after-milliseconds {SERVICE} {DOWN_MS}",
            f"sentinel failover-timeout {SERVICE} 4000",
        )
        self.sentinels = [Server(folder, *watch, sentinel=True) for _ in range(3)]
        wait_until(self._is_whole)
        hosts = ",".join(f"127.0.0.1:{each.port}" for each in self.sentinels)
        self.url = f"redis+sentinel://{hosts}/{SERVICE}"

    def _connected(self, server: Server) -> int:
        with server.client() as client:
            return sum(client.info("replication")[f"slave{n}"]["state"] == "online" for n in range(2)
                       if f"slave{n}" in client.info("replication"))  # fmt: skip

    def _is_whole(self) -> bool:
        states = [self._state(each) for each in self.sentinels]
        return all(s["num-other-sentinels"] == 2 and s["num-slaves"] == 2 and s["flags"] == "master" for s in states)

    def _state(self, sentinel: Server) -> dict[str, Any]:
        with sentinel.client() as client:
            state: dict[str, Any] = client.sentinel_master(SERVICE)
            return state

    @property
    def primary(self) -> Server:
        """The server that most of the Sentinels take for the primary."""
        ports = [int(self._state(each)["port"]) for each in self.sentinels]
        port = max(set(ports), key=ports.count)
        return next(server for server in self.servers if server.known == port)

    def fail_over(self) -> None:
        """A planned failover; returns when the Sentinels agree on it.

        It is asked for again where they gave it up: one that has not heard yet that a replica is to be promoted makes
        it a replica again.
        """
        before = self.primary

        def over() -> bool:
            with contextlib.suppress(RedisError), self.sentinels[0].client() as client:
                if int(self._state(self.sentinels[0])["port"]) == before.known:
                    client.sentinel_failover(SERVICE)  # refused while one is under way
            return self._is_another(before)

        wait_until(over, 60)

    def wait_for_another(self, before: Server) -> None:
        """Wait until the Sentinels agree that another server is the primary."""
        wait_until(lambda: self._is_another(before), 60)

    def _is_another(self, before: Server) -> bool:
        return self._agreed_port() not in (None, before.known)

    def _agreed_port(self) -> int | None:
        """Return the port of the primary on which the Sentinels agree; None while one is about to promote another.

        Two of them may do so one after the other, so that the first agreement holds for half a second.
        """
        states = [self._state(each) for each in self.sentinels]
        ports = {int(state["port"]) for state in states}
        return ports.pop() if len(ports) == 1 and all(state["flags"] == "master" for state in states) else None

    def takes_writes(self) -> bool:
        """Return whether the Sentinels agree on a primary and it has the replicas it needs, where it needs any."""
        port = self._agreed_port()
        for server in self.servers:
            if server.known == port:
                with contextlib.suppress(RedisError), server.client(socket_timeout=1) as client:
                    found = client.info("replication")
                    return found["role"] == "master" and int(found.get("min_slaves_good_slaves", 1)) > 0
        return False

    def never_promote(self, server: Server) -> None:
        """Wait until the Sentinels know that this one is never to be the primary."""
        with server.client() as client:
            client.config_set("replica-priority", 0)
        wait_until(lambda: all(self._priority(each, server) == 0 for each in self.sentinels), 60)

    def _priority(self, sentinel: Server, server: Server) -> int:
        with sentinel.client() as client:
            found = [each for each in client.sentinel_slaves(SERVICE) if int(each["port"]) == server.known]
            return int(found[0]["slave-priority"]) if found else -1

    def part(self, primary: Server) -> list[Server]:
        """Stop all servers but the primary, so that its writes reach no replica; return the stopped ones."""
        others = [server for server in self.servers if server is not primary]
        for each in others:
            each.signal(signal.SIGSTOP)
        with primary.client() as client:
            client.client_kill_filter(_type="replica")
        return others

    def wait_until_whole(self) -> None:
        """Wait until the primary has both replicas back."""
        wait_until(lambda: self._connected(self.primary) == 2 and self._is_whole(), 60)

    def stop(self) -> None:
        """End them all."""
        for each in (*self.sentinels, *self.servers):
            each.kill()
        if self.wires:
            self.wires.stop()
