"""A realm moves while something else dies: a hub, the new server, a primary behind Sentinels on either side."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from hub.errors import StoreUnavailable
from hub.settings import Settings
from hub.settings.realms import Realm, read_realms
from hub.settings.served import settings_of
from hub.store import moving
from hub.store.connection import open_store
from tests.cli.command import Command, Running
from tests.realms.test_move import KEYS, PHASES, all_is_there, lend_ten
from tests.realms.test_move import moving as begin_to_move
from tests.realms.world import EU, write_realms
from tests.replicas import Trio
from tests.world import HubProcess, RedisServer, eventually, settings_for, wait_until

IN_THE_MIDDLE = PHASES["in the middle of the copy"].replace("SIGKILL", "SIGSTOP")


class Place:
    """Two servers, a hub that serves `eu` on the first, ten slots of which are lent, and the command."""

    def __init__(self, tmp_path: Path, start_hub, old: str) -> None:
        self.file = write_realms(tmp_path / "realms.toml", eu=(old, EU))
        self.settings = {"HUB_REALMS_FILE": str(self.file), "HUB_REALMS": "eu", "HUB_NODE_TIMEOUT": "600"}
        self.hub: HubProcess = start_hub(**self.settings)
        self.command = Command(self.hub, tmp_path)
        self.command.environment["HUB_REALMS_FILE"] = str(self.file)


@pytest.fixture
def servers(tmp_path: Path):
    """Two servers of this test alone, which keep everything they have answered."""
    servers = [RedisServer(tmp_path / name, append_fsync="always") for name in ("old", "new")]
    with servers[0], servers[1]:
        yield servers


@pytest.fixture
def place(tmp_path, start_hub, servers) -> Iterator[Place]:
    found = Place(tmp_path, start_hub, servers[0].url)
    yield found
    found.command.close()


def stopped_in_the_middle(command: Command, url: str) -> Running:
    """Return a move that stands still while it copies."""
    running = begin_to_move(command, IN_THE_MIDDLE, "eu", "--to", url)
    wait_until(lambda: Path(f"/proc/{running.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
    return running


async def test_a_hub_killed_during_a_move_and_one_started_during_it_find_the_store(place, servers):
    old, new = servers
    lent = await lend_ten(place.hub)
    running = stopped_in_the_middle(place.command, new.url)
    place.hub.kill()
    other = HubProcess({**place.settings, "HUB_REDIS_URL": old.url})
    try:
        wait_until(lambda: "realm store unusable" in other.log())
        running.signal(signal.SIGCONT)
        assert running.end() == 0, running.err
        other.wait_until_ready()
        await all_is_there(other, lent, old, new)
    finally:
        other.kill()


@pytest.mark.parametrize("fault", ["killed", "frozen"])
async def test_a_realm_can_move_while_the_realm_it_spills_over_to_is_dead(
    fault, start_hub, servers, own_redis, tmp_path
):
    (old, new), far = servers, own_redis
    file = write_realms(tmp_path / "realms.toml", eu=(old.url, {**EU, "spill_to": ["us"]}), us=(far.url, {}))
    hub = start_hub(HUB_REALMS_FILE=str(file), HUB_REALMS="eu,us", HUB_NODE_TIMEOUT="600")
    lent = await lend_ten(hub)
    far.kill() if fault == "killed" else far.freeze()
    command = Command(hub, tmp_path)
    command.environment["HUB_REALMS_FILE"] = str(file)
    done = command("realm", "move", "eu", "--to", new.url)
    assert done.returncode == 0, done.stderr
    await all_is_there(hub, lent, old, new)
    assert [realm.url for realm in read_realms(file)] == [new.url, far.url]


@pytest.mark.parametrize("then", ["repeated", "undone"])
async def test_a_new_server_that_dies_during_the_move_loses_nothing(then, place, servers):
    old, new = servers
    lent = await lend_ten(place.hub)
    running = stopped_in_the_middle(place.command, new.url)
    new.kill()
    running.signal(signal.SIGCONT)
    assert running.end() == 1
    assert "Realm eu stands still: repeat this, or undo it with --back." in running.err
    if then == "undone":
        assert place.command("realm", "move", "eu", "--back").returncode == 0
        assert read_realms(place.file)[0].url == old.url

        async def is_valid() -> bool:
            async with place.hub.client("runner") as runners:
                slot, token = next(iter(lent.items()))
                answer = await runners.get(f"/leases/{slot}/verify", params={"token": token})
                return bool(answer.is_success and answer.json()["valid"])

        await eventually(is_valid)
        new.start()
        return
    refused = place.command("realm", "move", "eu", "--to", new.url)
    assert (refused.returncode, "does not answer" in refused.stderr) == (1, True), refused.stderr
    new.start()
    done = place.command("realm", "move", "eu", "--to", new.url)
    assert done.returncode == 0, done.stderr
    await all_is_there(place.hub, lent, old, new)


async def test_a_new_server_restarted_during_the_copy_is_not_used(place, servers, monkeypatch):
    """It answers and has the mark of the move, but its last writes may be lost, which no other check would notice."""
    old, new = servers
    lent = await lend_ten(place.hub)
    copy = moving._copy
    killed = []

    async def restarted(*given):
        keys = await copy(*given)
        if not killed:
            killed.append(new)
            new.kill()
            new.start()
        return keys

    monkeypatch.setattr(moving, "_copy", restarted)
    async with open_store(at(old), opened=False) as here:
        async with open_store(at(new), opened=False) as there:
            with pytest.raises(StoreUnavailable):
                await moving.move(here, there, new.url)
        assert await here.read("HGET", KEYS.store, "moved") is None
        async with open_store(at(new), opened=False) as there:
            assert await moving.move(here, there, new.url) > 0
    await all_is_there(place.hub, lent, old, new)


def at(server: RedisServer) -> Settings:
    return settings_of(Realm("eu", server.url), settings_for(server.url))


async def test_a_realm_can_move_between_two_groups_of_sentinels(tmp_path, start_hub):
    old, new = Trio(tmp_path / "old"), Trio(tmp_path / "new")
    try:
        place = Place(tmp_path, start_hub, old.url)
        lent = await lend_ten(place.hub)
        done = place.command("realm", "move", "eu", "--to", new.url)
        assert done.returncode == 0, done.stderr
        assert read_realms(place.file)[0].url == new.url
        await all_is_there(place.hub, lent, old.primary, new.primary)
        old.fail_over()  # its new primary knows that the realm has moved
        with old.primary.client() as redis:
            assert redis.hget(KEYS.store, "moved") == new.url
        new.fail_over()  # and the hub follows at the new place

        async def all_valid() -> bool:
            async with place.hub.client("runner") as runners:
                for slot, token in lent.items():
                    answer = await runners.get(f"/leases/{slot}/verify", params={"token": token})
                    if not (answer.is_success and answer.json()["valid"]):
                        return False
            return True

        await eventually(all_valid, 60)
    finally:
        for trio in (old, new):
            trio.stop()
