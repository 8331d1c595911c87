"""A realm moves to another server while a hub serves it: killed in each phase and repeated, undone, and refused."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis import Redis

from hub.settings.realms import read_realms
from hub.store.keys import Keys
from tests.cli.command import Command, Running
from tests.cluster import RedisCluster
from tests.realms.world import EU, write_realms
from tests.replicas import Server
from tests.world import HubProcess, RedisServer, eventually, wait_until

KEYS = Keys("{eu}:")
SLOTS = [f"s{number:02d}" for number in range(20)]
DIE = "os.kill(os.getpid(), signal.SIGKILL)"
# Where the command is killed -> Python that runs before it begins.
PHASES = {
    "before it is marked": f"moving._check_place = lambda *_: {DIE}",
    "as soon as it is marked": f"moving._take_turn = lambda *_: {DIE}",
    "before anything is copied": f"moving._copy = lambda *_: {DIE}",
    "in the middle of the copy": f"""
moving.BATCH = 5
write, written = moving._write, []
async def once(new, turn, commands):
    written.append(turn)
    if len(written) == 6: {DIE}
    await write(new, turn, commands)
moving._write = once""",
    "when all is copied": f"moving._decide = lambda *_: {DIE}",
    "when it is decided": f"""
decide = moving._decide
async def decided(old, by):
    await decide(old, by)
    {DIE}
moving._decide = decided""",
    "before the file is written": f"""
from hub.cli import realms
move = realms._move
async def moved(realm, there):
    await move(realm, there)
    {DIE}
realms._move = moved""",
}
UNDECIDED = list(PHASES)[:5]


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[RedisServer]]:
    """Two servers of this test alone."""
    servers = [RedisServer(tmp_path / name) for name in ("old", "new")]
    with servers[0], servers[1]:
        yield servers


@pytest.fixture
def file(tmp_path: Path, servers: list[RedisServer]) -> Path:
    """`eu` on the first."""
    return write_realms(tmp_path / "realms.toml", eu=(servers[0].url, EU))


@pytest.fixture
def hub(start_hub, file: Path) -> HubProcess:
    """A hub that serves `eu` alone."""
    return start_hub(HUB_REALMS_FILE=str(file), HUB_REALMS="eu", HUB_NODE_TIMEOUT="600")


@pytest.fixture
def command(tmp_path: Path, hub: HubProcess, file: Path) -> Iterator[Command]:
    """The command, at that hub."""
    found = Command(hub, tmp_path)
    found.environment["HUB_REALMS_FILE"] = str(file)
    yield found
    found.close()


@pytest.fixture
async def lent(hub: HubProcess) -> dict[str, str]:
    """Slot -> token of ten slots that are lent, of twenty that a node offers."""
    return await lend_ten(hub)


async def lend_ten(hub: HubProcess) -> dict[str, str]:
    """Borrow ten slots at this hub and return the leases."""
    node = {"nodeId": "eu-1", "slots": [{"slotId": slot, "labelKey": "gpu:a:eu"} for slot in SLOTS], "policy": "reuse"}
    async with hub.client("node") as nodes, hub.client("runner") as runners:

        async def is_there() -> bool:
            return (await nodes.post("/node/register", json=node)).is_success

        await eventually(is_there)
        found = [await borrow(runners) for _ in range(10)]
    return {each["browserId"]: each["leaseToken"] for each in found}


async def borrow(runners: httpx.AsyncClient) -> Any:
    """Return a lease, as soon as there is one."""
    answers: list[httpx.Response] = []

    async def is_lent() -> bool:
        body = {"labelKey": "gpu:a:eu", "ttlSeconds": 300, "maxWaitSeconds": 0}
        answers.append(await runners.post("/session/borrow", json=body))
        assert answers[-1].status_code in (200, 503), answers[-1].text
        return answers[-1].is_success

    await eventually(is_lent)
    return answers[-1].json()


def moving(command: Command, before: str, *words: str) -> Running:
    """Run `hub realm move` after some Python in its process."""
    return command.start("realm", "move", *words, before=f"import os, signal\nfrom hub.store import moving\n{before}")


def killed(command: Command, before: str, *words: str) -> None:
    """Run `hub realm move` until it kills itself."""
    running = moving(command, before, *words)
    assert running.end() == -signal.SIGKILL, running.err


async def is_refused(hub: HubProcess, path: str) -> bool:
    """Return whether a heartbeat is answered that there is no store now."""
    async with hub.client("node") as nodes:
        answer = await nodes.post(path, json={"nodeId": "eu-1"})
    assert answer.status_code in (200, 503), f"{answer.text}\n{hub.log()}"
    return answer.status_code == 503 and int(answer.headers["retry-after"]) > 0


async def all_is_there(hub: HubProcess, lent: dict[str, str], old: RedisServer, new: RedisServer) -> None:
    """Assert that every lease is valid at the new server under its token, tokens rise, and the old lends nothing."""
    node = {"nodeId": "eu-1", "slots": [{"slotId": slot, "labelKey": "gpu:a:eu"} for slot in SLOTS], "policy": "reuse"}
    with Redis(port=old.port) as before, new.client() as after:
        left = {name: before.dump(name) for name in before.scan_iter()}
        async with hub.client("node") as nodes, hub.client("runner") as runners:

            async def is_known() -> bool:
                with suppress(httpx.TransportError):  # a connection that has rested may end as it is used again
                    return (await nodes.post("/node/register", json={**node, "lent": lent})).is_success
                return False

            await eventually(is_known)
            free = [await borrow(runners) for _ in range(len(SLOTS) - len(lent))]
            assert {each["browserId"] for each in free} == {*SLOTS} - {*lent}
            assert min(int(each["leaseToken"]) for each in free) > max(map(int, lent.values()))
            for slot, token in lent.items():
                body = {"browserId": slot, "leaseToken": token, "ttlSeconds": 300}
                assert (await runners.post("/session/renew", json=body)).is_success
                said = await runners.get(f"/leases/{slot}/verify", params={"token": token})
                assert said.json().get("valid"), said.text
            assert after.scard(KEYS.nodes) == 1
        assert after.exists(KEYS.restoring) == 0
        # A hub that was not told of the move does not open the store that was left, and no hub has written there.
        assert before.hmget(KEYS.store, "generation", "format") == [None, b"1000000"]
        assert all(before.dump(name) == left[name] for name in before.scan_iter())
    assert "node expired" not in hub.log()


@pytest.mark.parametrize("phase", PHASES)
async def test_a_move_of_a_realm_killed_in_any_phase_can_be_repeated_without_loss(
    phase, hub, command, servers, file, lent, tmp_path
):
    old, new = servers
    kept = file.read_text()
    killed(command, PHASES[phase], "eu", "--to", new.url)
    assert file.read_text() == kept
    if phase in UNDECIDED[1:]:
        await eventually(lambda: is_refused(hub, "/node/heartbeat"))
        other = command("realm", "move", "eu", "--to", "redis://127.0.0.1:1")
        assert other.returncode == 1
    done = command("realm", "move", "eu", "--to", new.url)
    assert (done.returncode, f"Realm eu lives at {new.url}" in done.stdout) == (0, True), done.stderr
    (realm,) = read_realms(file)
    assert (realm.url, realm.labels, realm.nodes) == (new.url, *(tuple(EU[kind]) for kind in ("labels", "nodes")))
    await all_is_there(hub, lent, old, new)
    again = command("realm", "move", "eu", "--to", new.url)
    assert (again.returncode, again.stdout) == (0, f"Realm eu lives at {new.url}.\n")
    assert command("doctor", "--realm", "eu").returncode == 0


@pytest.mark.parametrize("phase", UNDECIDED)
async def test_an_unfinished_move_of_a_realm_can_be_undone_without_loss(phase, hub, command, servers, file, lent):
    old, new = servers
    with old.client() as redis:
        before = redis.hgetall(KEYS.store)
    killed(command, PHASES[phase], "eu", "--to", new.url)
    for _ in range(2):
        done = command("realm", "move", "eu", "--back")
        assert (done.returncode, done.stdout) == (0, f"The store of realm eu stays at {old.url}.\n"), done.stderr
    async with hub.client("runner") as runners:
        assert (await borrow(runners))["browserId"] not in lent
        for slot, token in lent.items():
            assert (await runners.get(f"/leases/{slot}/verify", params={"token": token})).json()["valid"]
    with old.client() as redis:
        after = redis.hgetall(KEYS.store)
        assert {name: after[name] for name in ("generation", "format", "born")} == {
            name: before[name] for name in ("generation", "format", "born")
        }
    assert read_realms(file)[0].url == old.url


async def test_a_realm_can_move_into_a_cluster(hub, command, servers, file, lent, tmp_path):
    """Where it has one slot, and its keys begin as they did."""
    (tmp_path / "cluster").mkdir()
    cluster = RedisCluster(tmp_path / "cluster")
    try:
        done = command("realm", "move", "eu", "--to", cluster.url)
        assert done.returncode == 0, done.stderr
        await all_is_there(hub, lent, servers[0], cluster.owner("{eu}:"))
        assert command("doctor", "--realm", "eu").returncode == 0
    finally:
        cluster.stop()


async def test_no_hub_follows_a_move_before_the_replicas_of_the_old_server_know_of_it(
    hub, command, servers, file, lent, tmp_path
):
    """One of them may take over there, and must not lend what is lent at the new place."""
    old, new = servers
    replica = Server(tmp_path, "save ''", "repl-diskless-sync-delay 0", f"replicaof 127.0.0.1 {old.port}")
    try:
        with replica.client() as redis:
            wait_until(lambda: redis.exists(KEYS.store) == 1)
            replica.signal(signal.SIGSTOP)
            refused = command("realm", "move", "eu", "--to", new.url)
            assert "0 of 1 replicas know that the store has moved; run it again." in refused.stderr
            with new.client() as there:
                assert there.exists(KEYS.restoring) == 1
            assert await is_refused(hub, "/node/heartbeat")
            replica.signal(signal.SIGCONT)
            assert command("realm", "move", "eu", "--to", new.url).returncode == 0
            assert redis.hget(KEYS.store, "moved") == new.url
        await all_is_there(hub, lent, old, new)
    finally:
        replica.kill()


async def test_a_finished_move_cannot_be_undone(hub, command, servers, lent):
    _, new = servers
    killed(command, PHASES["when it is decided"], "eu", "--to", new.url)
    refused = command("realm", "move", "eu", "--back")
    assert (refused.returncode, refused.stderr) == (1, f"hub: The store is at {new.url} by now; move it from there.\n")


async def test_after_a_move_a_stopped_hub_and_one_with_the_old_file_find_the_store(
    hub, command, servers, file, lent, start_hub
):
    old, new = servers
    stale = file.with_name("stale.toml")
    stale.write_text(file.read_text())
    hub.signal(signal.SIGSTOP)
    assert command("realm", "move", "eu", "--to", new.url).returncode == 0
    hub.signal(signal.SIGCONT)
    await all_is_there(hub, lent, old, new)
    later = start_hub(HUB_REALMS_FILE=str(stale), HUB_REALMS="eu", HUB_NODE_TIMEOUT="600")
    async with later.client() as api:

        async def is_found() -> bool:
            (eu,) = (await api.get("/realms")).json()["realms"]
            return (eu["state"], eu["url"]) == ("open", new.url)

        await eventually(is_found)
        slot, token = next(iter(lent.items()))
        answer = await api.get(
            f"/realms/eu/leases/{slot}/verify", params={"token": token}, headers={"x-hub-secret": later.runner_secret}
        )
        assert answer.json()["valid"]
        refused = command("doctor", "--realm", "eu", HUB_REALMS_FILE=str(stale))
        assert (refused.returncode, refused.stderr) == (1, f"hub: The store has moved to {new.url}.\n")
        # SIGHUP with the file as it was, and as it is now, leaves the realm where it is: no connection is closed.
        opened = later.log().count("realm opened")
        for text in (stale.read_text(), file.read_text()):
            stale.write_text(text)
            known = later.log().count("realms file loaded")
            later.signal(signal.SIGHUP)
            wait_until(lambda known=known: later.log().count("realms file loaded") > known)
            assert await is_found()
        assert later.log().count("realm opened") == opened


async def test_a_move_to_a_server_that_is_not_empty_is_refused_and_stops_nothing(hub, command, servers, file, lent):
    old, new = servers
    with new.client() as redis:
        redis.sadd(KEYS.nodes, "n9")
    for url, why in (
        (new.url, f"The place is not empty: it has {KEYS.nodes}."),
        (old.url.replace("127.0.0.1", "localhost"), "The place is not empty: it has {eu}:"),
        ("redis://127.0.0.1:1", "Redis at redis://127.0.0.1:1 does not answer"),
        ("ftp://nowhere", "url"),
    ):
        refused = command("realm", "move", "eu", "--to", url)
        assert refused.returncode == 1, url
        assert why in refused.stderr
        assert not await is_refused(hub, "/node/heartbeat")
    with old.client() as redis:
        assert redis.hget(KEYS.store, "moving") is None
        assert redis.exists(KEYS.restoring) == 0
    for words in (("eu",), ("eu", "--back", "--to", new.url), ("us", "--to", new.url), ("default", "--to", new.url)):
        assert command("realm", "move", *words).returncode == 2
    assert read_realms(file)[0].url == old.url


async def test_an_attempt_to_move_that_continues_after_another_has_finished_changes_nothing(
    command, servers, lent, hub
):
    old, new = servers
    slow = PHASES["in the middle of the copy"].replace("SIGKILL", "SIGSTOP")
    first = moving(command, slow, "eu", "--to", new.url)
    wait_until(lambda: Path(f"/proc/{first.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
    done = command("realm", "move", "eu", "--to", new.url)
    assert done.returncode == 0, done.stderr
    await all_is_there(hub, lent, old, new)
    first.signal(signal.SIGCONT)
    assert first.end() == 1
    assert "Another attempt to move the store has taken over." in first.err
    assert command("doctor", "--realm", "eu").returncode == 0
