"""A store of an older format is brought to the newest one while hubs run, with a change that is made up."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from redis import Redis

from tests.cli.command import Command
from tests.world import HubProcess, RedisServer, borrow, eventually, publish, wait_until

MADE_UP = 1000  # keys that it changes
# What a later version of the hub has that this one has not: another text of its functions, and a change of the format.
# It keeps its speed within bounds, so that it can be killed in the middle.
LATER = """
import functools
import hub.store.library as libraries
now = libraries.library
libraries.library = functools.cache(lambda: now().replaced("-- Commands:", "-- The commands:"))
from hub.store import formats, migrating
from hub.sweeping import migration
formats.MIGRATIONS.append(formats.Migration("made-up texts become hashes", "made:", '''
local before = 0
for _, key in ipairs(KEYS) do
  if redis.call('TYPE', key).ok == 'string' then
    before = before + 1
    if ARGV[1] ~= '1' then
      local text = redis.call('GET', key)
      redis.call('DEL', key)
      redis.call('HSET', key, 'text', text)
    end
  end
end
return before
'''))
migrating.BATCH = 10
migration.REST_S, migration.AGAIN_S = 0.01, 0.2
"""
SETTINGS = {"HUB_NODE_TIMEOUT": "2", "HUB_SWEEPER_EXPIRE": "false"}


@pytest.fixture
def redis(own_server: RedisServer) -> Redis:
    client = own_server.client()
    yield client
    client.close()


@pytest.fixture
def own_server(tmp_path: Path):
    """A server of this test alone: whose functions are on it decides."""
    server = RedisServer(tmp_path)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def start(own_server: RedisServer):
    """Start hubs of this version, and with `LATER` of a later one."""
    hubs: list[HubProcess] = []

    def start(before: str = "", ready: bool = True) -> HubProcess:
        hubs.append(HubProcess({"HUB_REDIS_URL": own_server.url, **SETTINGS}, before=before, anew=bool(before)))
        if ready:
            hubs[-1].wait_until_ready()
        return hubs[-1]

    yield start
    for each in hubs:
        each.kill()


@pytest.fixture
def command(own_server: RedisServer, tmp_path: Path) -> Command:
    found = Command(None, tmp_path)
    found.environment["HUB_REDIS_URL"] = own_server.url
    return found


def later(command: Command, *words: str):
    """The command of the later version."""
    program = f"{LATER}\nimport hub.cli; sys.exit(hub.cli.main())"
    line = [sys.executable, "-c", f"import sys\n{program}", *words]
    return subprocess.run(line, env=command.environment, capture_output=True, text=True, timeout=60, check=False)


def made_up(redis: Redis) -> tuple[int, int]:
    """How many of its keys are of the form before, and of the one after."""
    kinds = [redis.type(f"made:{number}") for number in range(MADE_UP)]
    return kinds.count("string"), kinds.count("hash")


def stored(redis: Redis) -> str:
    return redis.hget("hub:store", "format")


def refused_from_now_on(start) -> None:
    """A hub of this version says so in one sentence, and does not start."""
    refusal = start(ready=False)
    assert refusal.process.wait(60) != 0
    assert re.search(r"The store has format 2, and this hub knows 1: a later .* start that one\.\n", refusal.log())


async def test_a_store_is_migrated_while_hubs_of_the_version_before_go_on(start, redis, command, own_server):
    before = start()
    for number in range(MADE_UP):
        redis.set(f"made:{number}", f"text {number}")
    async with before.client("node") as node, before.client("runner") as runner:
        await publish(node, "n1", **{"gpu:a": ["s1", "s2"]})
        lease = (await borrow(runner, "gpu:a")).json()

        said = later(command, "store", "migrate", "--dry-run")
        assert (said.returncode, said.stdout) == (
            0,
            f"made-up texts become hashes: {MADE_UP} keys would be changed.\n"
            f"{own_server.url} has format 1, and would have 2.\n",
        )
        assert (made_up(redis), stored(redis)) == ((MADE_UP, 0), "1")

        first = start(LATER)
        wait_until(lambda: 0 < made_up(redis)[1] < MADE_UP)
        first.kill()  # in the middle
        assert 0 < made_up(redis)[0] < MADE_UP
        second = start(LATER)  # goes on where that one was
        wait_until(lambda: made_up(redis) == (0, MADE_UP))

        # As long as a hub of the version before is there, it serves and the format stays what it was.
        refused = later(command, "store", "migrate")
        assert (refused.returncode, "Hubs of another version used the server just now" in refused.stderr) == (1, True)
        redis.set("made:7", "text of the form before")
        wait_until(lambda: redis.type("made:7") == "hash")
        assert stored(redis) == "1"
        await publish(node, "n1", **{"gpu:a": ["s1", "s2"]})
        assert (await borrow(runner, "gpu:a")).json()["browserId"] != lease["browserId"]
    before.signal(signal.SIGTERM)
    before.process.wait()

    wait_until(lambda: stored(redis) == "2", seconds=120)
    assert redis.hexists("hub:store", "migrating") == 0
    async with second.client("runner") as runner:

        async def is_valid() -> bool:
            answer = await runner.get(f"/leases/{lease['browserId']}/verify", params={"token": lease["leaseToken"]})
            return answer.is_success and answer.json()["valid"]

        await eventually(is_valid)
    refused_from_now_on(start)
    again = later(command, "store", "migrate")
    assert again.stdout == f"{own_server.url} has format 2, the newest that this hub knows.\n"
    assert {redis.hget(f"made:{number}", "text") for number in (0, 7)} == {"text 0", "text of the form before"}


async def test_a_hub_of_the_version_before_that_stood_still_meanwhile_does_nothing(start, redis, command):
    """It had opened the store when that had the format before, and wakes up when it has not."""
    before = start()
    async with before.client("node") as node:
        await publish(node, "n1", **{"gpu:a": ["s1"]})
        before.signal(signal.SIGSTOP)
        after = start(LATER)
        wait_until(lambda: stored(redis) == "2", seconds=120)
        before.signal(signal.SIGCONT)
        async with before.client("runner") as runner:

            async def is_refused() -> bool:
                answer = await borrow(runner, "gpu:a")
                assert answer.status_code == 503, answer.text
                return "The store has format 2" in answer.text

            await eventually(is_refused)
    async with after.client("node") as node, after.client("runner") as runner:
        await publish(node, "n1", **{"gpu:a": ["s1"]})

        async def is_lent() -> bool:
            return (await borrow(runner, "gpu:a")).is_success

        await eventually(is_lent)


def test_there_is_nothing_to_migrate_in_a_store_of_this_version(command, own_server, redis):
    for words in (("--dry-run",), ()):
        said = command("store", "migrate", *words)
        assert said.stdout == f"{own_server.url} has format 1, the newest that this hub knows.\n", said.stderr
