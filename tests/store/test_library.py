"""The library of functions: when a hub may call it, and how it behaves on a server that others use too."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import ResponseError

from hub.doctor import examine
from hub.errors import StartRefused
from hub.store.connection import open_store
from hub.store.keys import Keys
from hub.store.library import Library, library
from tests.replicas import Server
from tests.world import RedisServer, borrow, give_back, publish, settings_for, wait_until

KEYS = Keys()
OPEN = {
    "run_id": "r",
    "lost": "0",
    "settle_ms": 2000,
    "floor": "0",
    "timeout_ms": "0",
    "heard_ms": "0",
    "cluster": "0",
    "format": 1,
}
TICK = {"hub_id": "h", "leader_ms": 2000, "limits": "reserve=10"}


def called(redis: Redis, name: str, named: dict[str, Any], *, by: Library | None = None, keys: Keys = KEYS) -> Any:
    """Return the answer of a command, or the first word of its refusal."""
    found = by or library()
    arguments = found.commands[name].ordered((), named)
    try:
        return redis.execute_command(*found.call(name, keys, arguments))
    except ResponseError as error:
        return str(error).split()[0]


def opened(redis: Redis, run_id: str | None = None, **more: Any) -> int:
    """Open the store as a hub does; the token after that."""
    identity = run_id or redis.info("server")["run_id"]
    assert called(redis, "store/open", OPEN | {"run_id": identity} | more)[0] in ("new", "open", "restarted")
    return int(redis.hget(KEYS.store, "token"))


def spend(redis: Redis, tokens: int = 5) -> int:
    """Tokens are issued; the last one."""
    return int(redis.hincrby(KEYS.store, "token", tokens))


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Callable[..., Redis]]:
    """Start servers without files, replicas of others where that is given."""
    with ExitStack() as stack:

        def start(*lines: str) -> Redis:
            server = Server(tmp_path, "save ''", "repl-diskless-sync yes", "repl-diskless-sync-delay 0", *lines)
            stack.callback(server.kill)
            return stack.enter_context(server.client())

        yield start


def test_a_server_that_no_hub_has_opened_refuses_every_command(servers):
    redis = servers()
    redis.function_load(library().text)
    for name, command in library().commands.items():
        if name not in ("store/open", "store/move", "store/moved", "store/stay"):  # which decide who may open it
            assert called(redis, name, dict.fromkeys(command.arguments, "1")) == "UNOPENED", name
    assert redis.dbsize() == 0


def test_a_restarted_server_refuses_commands_until_its_tokens_have_jumped(own_redis):
    with own_redis.client() as redis:
        redis.function_load(library().text)
        opened(redis)
        highest = spend(redis)
    own_redis.kill()
    own_redis.start()
    with own_redis.client() as redis:
        assert called(redis, "store/tick", TICK) == "UNOPENED"
        assert (
            called(redis, "doctor/check", dict.fromkeys(("kind", "fields", "timeout_ms", "grace_ms"), "1"))
            == "UNOPENED"
        )
        assert opened(redis) > highest
        assert called(redis, "store/tick", TICK)[0] == "ok"


def test_tokens_rise_above_those_that_a_restart_has_lost(own_redis, tmp_path):
    with own_redis.client() as redis:
        redis.function_load(library().text)
        opened(redis)
        redis.wait(0, 0)
        shutil.copytree(own_redis.folder, tmp_path / "older")
        highest = spend(redis, 1000)
    own_redis.kill()
    shutil.rmtree(own_redis.folder)
    shutil.move(tmp_path / "older", own_redis.folder)
    own_redis.start()
    with own_redis.client() as redis:
        assert int(redis.hget(KEYS.store, "token")) < highest
        assert called(redis, "store/tick", TICK) == "UNOPENED"
        assert opened(redis) > highest


def test_a_wiped_store_is_opened_with_tokens_above_all_that_the_hub_remembers(servers):
    redis = servers()
    redis.function_load(library().text)
    opened(redis)
    highest = spend(redis, 1 << 40)
    redis.flushall()
    assert called(redis, "store/tick", TICK) == "UNOPENED"
    assert opened(redis, lost="1", floor=str(highest)) > highest


def test_a_replica_that_becomes_primary_is_opened_before_it_is_used(servers):
    first = servers()
    port = first.connection_pool.connection_kwargs["port"]
    first.function_load(library().text)
    opened(first)
    second = servers(f"replicaof 127.0.0.1 {port}")
    wait_until(lambda: second.hget(KEYS.store, "token") is not None)
    highest = spend(first)
    assert first.wait(1, 5000) == 1
    second.replicaof("NO", "ONE")
    assert len(second.function_list()) == 1  # it came with the data
    assert called(second, "store/tick", TICK) == "UNOPENED"
    assert opened(second) > highest


def test_a_former_primary_that_comes_back_is_opened_again(servers):
    """It was open before and has been running all the while, and cannot know what the other one has issued."""
    first = servers()
    port = first.connection_pool.connection_kwargs["port"]
    first.function_load(library().text)
    opened(first)
    second = servers(f"replicaof 127.0.0.1 {port}")
    wait_until(lambda: second.hget(KEYS.store, "token") is not None)
    assert first.wait(1, 5000) == 1
    second.replicaof("NO", "ONE")
    first.replicaof("127.0.0.1", second.connection_pool.connection_kwargs["port"])
    opened(second)
    wait_until(lambda: first.hget(KEYS.store, "generation") == second.hget(KEYS.store, "generation"))
    highest = spend(second)
    assert second.wait(1, 5000) == 1
    first.replicaof("NO", "ONE")
    assert called(first, "store/tick", TICK) == "UNOPENED"
    assert opened(first) > highest


async def test_functions_flushed_by_another_program_are_loaded_again_unnoticed(hub, redis):
    before = hub.store.generation, redis.hget(KEYS.store, "token")
    redis.function_flush()
    await hub.clock.tick()
    assert (hub.store.generation, redis.hget(KEYS.store, "token")) == before


def test_a_library_loaded_anew_is_opened_again_without_loss(servers):
    redis = servers()
    redis.function_load(library().text)
    before = opened(redis)
    redis.function_load(library().text, replace=True)
    assert called(redis, "store/tick", TICK) == "UNOPENED"
    assert opened(redis) == before


def test_each_prefix_and_each_database_is_a_separate_store(servers):
    redis = servers()
    redis.function_load(library().text)
    opened(redis)
    other = Keys("other:")
    assert called(redis, "store/tick", TICK, keys=other) == "UNOPENED"
    assert called(redis, "store/open", OPEN, keys=other)[0] == "new"
    assert called(redis, "store/tick", TICK, keys=other)[1] == redis.hget(other.store, "generation")
    assert called(redis, "store/tick", TICK)[1] == redis.hget(KEYS.store, "generation")
    redis.select(2)
    assert called(redis, "store/tick", TICK, keys=Keys("", 2)) == "UNOPENED"
    assert redis.dbsize() == 0


def test_hubs_of_two_versions_can_use_one_store(servers):
    redis = servers()
    newer = library().replaced("-- Commands:", "-- The commands:")
    for each in (library(), newer):
        redis.function_load(each.text)
    before = opened(redis)
    assert called(redis, "store/tick", TICK, by=newer) == "UNOPENED"
    run_id = redis.info("server")["run_id"]
    assert called(redis, "store/open", OPEN | {"run_id": run_id}, by=newer)[0] == "open"
    for each in (newer, library()):
        assert called(redis, "store/tick", TICK, by=each)[0] == "ok"
    assert int(redis.hget(KEYS.store, "token")) == before
    redis.flushall()
    opened(redis)
    assert called(redis, "store/tick", TICK, by=newer) == "UNOPENED"


OLD = """#!lua name={name}
redis.register_function({{function_name = '{name}_last_used', callback = function() return {used_ms} end,
  flags = {{'no-writes'}}}})"""


async def test_the_doctor_deletes_libraries_that_were_unused_for_a_day(hub, redis, settings):
    now_ms = redis.time()[0] * 1000
    for name, age_h in (("hub_old", 25), ("hub_recent", 23)):
        redis.function_load(OLD.format(name=name, used_ms=now_ms - age_h * 3_600_000))
    redis.function_load("#!lua name=hub_strange\nredis.register_function('strange', function() return 1 end)")
    redis.function_load("#!lua name=theirs\nredis.register_function('theirs', function() return 1 end)")
    assert set(await hub.store.libraries()) == {"hub_old", "hub_recent"}
    found = await examine(hub.store, settings=settings, pause_s=0.01)
    assert [(each.invariant, each.subject, each.repaired) for each in found] == [("C12", "hub_old", False)]
    found = await examine(hub.store, repair=True, settings=settings, pause_s=0.01)
    assert [each.repaired for each in found] == [True]
    left = {name for each in redis.function_list() for name in each if str(name).startswith(("hub_", "theirs"))}
    assert left == {"hub_recent", "hub_strange", "theirs", library().name}


@pytest.mark.parametrize("forbidden", ["function", "fcall"])
async def test_a_server_without_functions_is_refused_in_one_sentence(servers, forbidden):
    redis = servers()
    redis.acl_setuser(
        "hub", enabled=True, passwords=["+p"], keys=["*"], channels=["*"], commands=["+@all", f"-{forbidden}"]
    )
    port = redis.connection_pool.connection_kwargs["port"]
    with pytest.raises(StartRefused) as refused:
        async with open_store(settings_for(f"redis://hub:p@127.0.0.1:{port}")):
            pass
    assert "does not keep functions for the hub" in str(refused.value)
    assert "FUNCTION and FCALL" in str(refused.value)


async def test_a_redis_without_memory_lends_nothing_and_accepts_returns(make_api, redis):
    async with make_api() as api:
        await publish(api, "n1", **{"a:b": ["s1", "s2"]})
        assert (await borrow(api, "a:b")).json()["browserId"] == "s1"
        redis.config_set("maxmemory", 1)
        try:
            assert (await borrow(api, "a:b")).status_code == 503
            assert (await api.get("/pools")).status_code == 200
            assert (await give_back(api, "a:b", "s1")).status_code == 200
        finally:
            redis.config_set("maxmemory", 0)
        assert redis.lrange("inuse:a:b", 0, -1) == []


async def test_a_store_written_by_a_later_version_is_refused_and_left_alone(redis_server: RedisServer, redis: Redis):
    async with open_store(settings_for(redis_server.url)):
        assert redis.hget(KEYS.store, "format") == "1"
    redis.hset(KEYS.store, mapping={"format": "2", "run_id": "of the one before"})
    before = redis.hgetall(KEYS.store)
    with pytest.raises(StartRefused, match="The store has format 2, and this hub knows 1"):
        async with open_store(settings_for(redis_server.url)):
            pass
    assert redis.hgetall(KEYS.store) == before
    redis.hdel(KEYS.store, "format")  # of a version that did not say it yet
    async with open_store(settings_for(redis_server.url)):
        assert redis.hget(KEYS.store, "format") == "1"


async def test_a_running_hub_refuses_calls_once_a_later_version_has_changed_the_store(api, redis: Redis):
    await publish(api, "n1", **{"gpu:a100": ["s1"]})
    redis.hset(KEYS.store, mapping={"format": "2", "generation": "of a later version", "run_id": "of another server"})
    answer = await borrow(api, "gpu:a100")
    assert (answer.status_code, answer.json()["code"]) == (503, "store-unavailable")
    assert redis.llen(KEYS.available("gpu:a100")) == 1


async def test_a_stopped_hub_changes_nothing_in_a_store_that_a_later_version_took_over(start_hub, redis: Redis):
    hub = start_hub()
    async with hub.client("node") as node, hub.client("runner") as runner:
        await publish(node, "n1", **{"gpu:a100": ["s1"]})
        hub.signal(signal.SIGSTOP)
        redis.hset(KEYS.store, mapping={"format": "2", "generation": "of a later version"})
        hub.signal(signal.SIGCONT)
        answer = await borrow(runner, "gpu:a100")
    assert (answer.status_code, answer.json()["code"]) == (503, "store-unavailable")
    assert "The store has format 2" in answer.text
    assert redis.llen(KEYS.available("gpu:a100")) == 1
