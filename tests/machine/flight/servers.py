"""Two Redis servers whose time, data and identity a test moves: restarted, failed over, failed back, wiped.

What a server was some time ago is an image of all its keys. A restart, or a replica that had not heard of the last
writes, is that image put back; a restarted server knows no functions and has another run id, a promoted one another
replication id. The servers themselves run all the while: starting one takes longer than a whole run of the machine.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from hashlib import sha1
from pathlib import Path

from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from hub.store.keys import Keys

SHIFT = "test:shift_ms"  # how far the time of a server is ahead of that of the machine

_IMAGE = """
local found = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  if key ~= KEYS[1] then
    found[#found + 1] = {key, redis.call('DUMP', key), redis.call('PTTL', key)}
  end
end
return found"""
_RESTORE = """
for _, key in ipairs(redis.call('KEYS', '*')) do if key ~= KEYS[1] then redis.call('DEL', key) end end
for i = 1, #ARGV, 3 do redis.call('RESTORE', ARGV[i], math.max(0, tonumber(ARGV[i + 2])), ARGV[i + 1], 'REPLACE') end
return 1"""
_PASS = """
redis.call('INCRBY', KEYS[1], ARGV[1])
for _, key in ipairs(redis.call('KEYS', '*')) do
  local left = redis.call('PTTL', key)
  if left > 0 then redis.call('PEXPIRE', key, left - tonumber(ARGV[1])) end
end
if ARGV[2] == '1' and redis.call('HEXISTS', KEYS[2], 'clock_ms') == 1 then
  local time = redis.call('TIME')
  local now_ms = time[1] * 1000 + math.floor(time[2] / 1000) + redis.call('GET', KEYS[1])
  redis.call('HINCRBY', KEYS[2], 'clock_ms', ARGV[1])
  redis.call('HSET', KEYS[2], 'tick_ms', string.format('%.0f', now_ms))
end
return 1"""
# What stands in the library instead of Redis TIME: the time of the server, and its shift.
TIME = "redis.call('TIME')"
SHIFTED = """(function()
  local t = redis.call('TIME')
  local us = t[1] * 1000000 + t[2] + (tonumber(redis.call('GET', 'test:shift_ms') or '0')) * 1000
  return {string.format('%.0f', math.floor(us / 1000000)), string.format('%.0f', us % 1000000)}
end)()"""


class Server:
    """A Redis server without a file."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name, self.socket = name, str(folder / f"{name}.sock")
        binary = shutil.which("redis-server") or shutil.which("valkey-server")
        assert binary, "the tests need redis-server or valkey-server on the PATH"
        options = ["--port", "0", "--unixsocket", self.socket, "--save", "", "--appendonly", "no"]
        self._process = subprocess.Popen([binary, *options, "--dir", str(folder)], stdout=subprocess.DEVNULL)
        self.redis = Redis(unix_socket_path=self.socket)
        self.text = Redis(unix_socket_path=self.socket, decode_responses=True)
        self._wait()
        self.begin()

    def _wait(self) -> None:
        until = time.monotonic() + 60
        while True:
            try:
                self.redis.ping()
                return
            except (RedisConnectionError, OSError):
                assert time.monotonic() < until, "redis-server did not come up"
                time.sleep(0.02)

    def begin(self) -> None:
        """Empty, and as if it had just been started."""
        self.redis.flushall()
        self.starts = self.promotions = 0
        self.forget_functions()

    def set_clock(self, ahead_ms: int) -> None:
        """Its clock is so far ahead of that of the machine."""
        self.redis.set(SHIFT, ahead_ms)

    def forget_functions(self) -> None:
        """Started anew: no functions, another run id."""
        self.starts += 1
        self.redis.function_flush()

    @property
    def ids(self) -> tuple[bytes, bytes]:
        """The run id and the replication id that it shows."""
        run = sha1(f"{self.name} {self.starts}".encode()).hexdigest()
        replication = sha1(f"{self.name} {self.starts} {self.promotions}".encode()).hexdigest()
        return run.encode(), replication.encode()

    def image(self) -> list[bytes]:
        """Return everything the server holds."""
        rows = self.redis.eval(_IMAGE, 1, SHIFT)
        return [part for key, dump, left in rows for part in (key, dump, str(left).encode())]

    def restore(self, image: list[bytes]) -> None:
        """Make it hold this, and nothing else."""
        self.redis.eval(_RESTORE, 1, SHIFT, *image)

    def wipe(self) -> None:
        """Empty it; it goes on running."""
        self.restore([])

    def pass_time(self, ms: int, *, heard: bool) -> None:
        """Its time goes on by so much, and so do the lifetimes of its keys; the hub clock does while a hub is heard."""
        self.redis.eval(_PASS, 2, SHIFT, Keys("").store, ms, int(heard))

    def stop(self) -> None:
        self.redis.close()
        self.text.close()
        self._process.kill()
        self._process.wait()
