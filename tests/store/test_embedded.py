"""The embedded server on the real binary: hubs are real processes, on the loop they really use, where one is killed."""

import asyncio
import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from redis.asyncio import Redis
from redis.exceptions import RedisError

from hub.errors import StartRefused
from hub.store import embedded, keeper
from hub.store.embedded import EmbeddedRedis, find_server
from tests.world import eventually

HUB = """
import asyncio, pathlib, sys, uvloop
from hub.store.embedded import EmbeddedRedis
async def main():
    server = EmbeddedRedis(pathlib.Path(sys.argv[1]))
    print(await server.start(), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await server.stop()
uvloop.run(main())
"""


@contextlib.asynccontextmanager
async def client_of(url: str):
    client = Redis.from_url(url, decode_responses=True)
    try:
        yield client
    finally:
        await client.aclose()


@contextlib.contextmanager
def hub_process(data_dir: Path):
    process = subprocess.Popen(
        [sys.executable, "-c", HUB, str(data_dir)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline().startswith("unix://")
        yield process
    finally:
        process.kill()
        process.communicate()


def silent_server(folder: Path) -> Path:
    """Return a folder for the PATH with a server that never answers."""
    server = folder / "bin" / "redis-server"
    server.parent.mkdir()
    server.write_text("#!/bin/sh\nexec sleep 60\n")
    server.chmod(0o755)
    return server.parent


async def server_pid(url: str) -> int:
    async with client_of(url) as client:
        return (await client.info("server"))["process_id"]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # the latter: it ended while it was read
        return False


async def test_data_of_the_embedded_server_survives_a_stop_and_a_start(tmp_path):
    server = EmbeddedRedis(tmp_path / "new" / "data")
    async with client_of(await server.start()) as client:
        await client.set("k", "v")
    await server.stop()
    url = await server.start()
    async with client_of(url) as client:
        assert await client.get("k") == "v"
        config = {name: (await client.config_get(name))[name] for name in ("port", "appendonly", "maxmemory-policy")}
        assert config == {"port": "0", "appendonly": "yes", "maxmemory-policy": "noeviction"}
    pid = await server_pid(url)
    await server.stop()
    assert not is_running(pid)
    assert not (tmp_path / "new" / "data" / "redis.sock").exists()


async def test_stopping_a_server_that_never_started_or_twice_does_nothing(tmp_path):
    server = EmbeddedRedis(tmp_path)
    await server.stop()
    await server.start()
    await server.stop()
    await server.stop()


async def test_two_hubs_share_one_embedded_server_which_runs_until_both_have_left(tmp_path):
    first, second = EmbeddedRedis(tmp_path), EmbeddedRedis(tmp_path)
    urls = await asyncio.gather(first.start(), second.start())
    assert urls[0] == urls[1]
    pid = await server_pid(urls[0])
    await first.stop()
    await asyncio.sleep(0.3)  # three looks of the keeper at its users
    assert await server_pid(urls[1]) == pid
    await second.stop()
    assert not is_running(pid)


async def test_the_embedded_server_of_a_killed_hub_ends_and_keeps_its_data(tmp_path):
    server = EmbeddedRedis(tmp_path)
    with hub_process(tmp_path) as process:
        url = f"unix://{tmp_path}/redis.sock"
        pid = await server_pid(url)
        async with client_of(url) as client:
            await client.set("k", "v")
        process.kill()
        await eventually(lambda: not is_running(pid))
    async with client_of(await server.start()) as client:
        assert await client.get("k") == "v"
    await server.stop()


async def test_killing_one_hub_leaves_the_embedded_server_to_the_others(tmp_path):
    server = EmbeddedRedis(tmp_path)
    with hub_process(tmp_path) as process:
        url = await server.start()
        pid = await server_pid(url)
        process.kill()
        process.wait()
        await asyncio.sleep(0.3)
        assert await server_pid(url) == pid
    await server.stop()
    assert not is_running(pid)


async def test_a_killed_embedded_server_is_restarted_with_its_data(tmp_path):
    server = EmbeddedRedis(tmp_path)
    url = await server.start()
    async with client_of(url) as client:
        await client.set("k", "v")
        await client.config_set("appendfsync", "always")
        await client.set("k2", "v")
    os.kill(await server_pid(url), signal.SIGKILL)

    async def is_back():
        with contextlib.suppress(OSError, RedisError):
            async with client_of(url) as client:
                return await client.mget("k", "k2") == ["v", "v"]

    await eventually(is_back)
    await server.stop()


@pytest.fixture
def runtime_dir(monkeypatch):
    with tempfile.TemporaryDirectory(prefix="hub-") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield Path(folder)


async def test_a_too_long_socket_path_is_replaced_by_a_short_one(tmp_path, runtime_dir):
    long_dir = tmp_path / ("x" * 100)
    server = EmbeddedRedis(long_dir)
    url = await server.start()
    async with client_of(url) as client:
        assert await client.ping()
        assert (await client.config_get("dir"))["dir"] == str(long_dir)
    assert Path(url.removeprefix("unix://")).parent.parent == runtime_dir
    await server.stop()


async def test_a_short_socket_folder_that_others_can_enter_is_refused(tmp_path, runtime_dir):
    server = EmbeddedRedis(tmp_path / ("x" * 100))
    await server.start()
    await server.stop()
    (folder,) = runtime_dir.glob("capacity-hub-*")
    folder.chmod(0o755)
    with pytest.raises(StartRefused, match="others could reach it"):
        await server.start()


async def test_a_too_long_runtime_directory_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / ("x" * 100)))
    server = EmbeddedRedis(tmp_path / ("y" * 100))
    url = await server.start()
    await server.stop()
    folder = Path(url.removeprefix("unix://")).parent
    assert folder.name.startswith("capacity-hub-")
    folder.rmdir()


async def test_a_folder_name_with_odd_characters_works(tmp_path):
    server = EmbeddedRedis(tmp_path / "a b?c#d%20é")
    async with client_of(await server.start()) as client:
        assert await client.ping()
    await server.stop()


async def test_a_server_that_cannot_start_is_reported_in_one_sentence_with_its_last_log_line(tmp_path):
    (tmp_path / "appendonlydir").mkdir()
    (tmp_path / "appendonlydir" / "appendonly.aof.manifest").write_text("nonsense\n")
    with pytest.raises(StartRefused) as refused:
        await EmbeddedRedis(tmp_path).start()
    assert "did not start" in refused.value.detail
    assert "last words" in refused.value.detail
    assert "\n" not in refused.value.detail


async def test_a_data_directory_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StartRefused, match="cannot use"):
        await EmbeddedRedis(tmp_path / "file").start()


async def test_without_a_redis_server_on_the_path_none_is_found(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_server() is None
    with pytest.raises(StartRefused, match="on the PATH"):
        await EmbeddedRedis(tmp_path).start()


async def test_a_cancelled_start_leaves_no_process_and_no_file(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{silent_server(tmp_path)}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(EmbeddedRedis(tmp_path / "data").start(), 0.5)
    lock = os.open(tmp_path / "data" / keeper.SERVER_LOCK, os.O_RDWR | os.O_CREAT)
    await eventually(lambda: keeper.try_lock(lock, fcntl.LOCK_EX))
    os.close(lock)


async def test_a_server_that_does_not_answer_in_time_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{silent_server(tmp_path)}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(embedded, "START_BOUND_S", 0.5)
    with pytest.raises(StartRefused, match=r"did not answer within 0\.5 s"):
        await EmbeddedRedis(tmp_path / "data").start()
