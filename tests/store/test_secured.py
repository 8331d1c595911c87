"""Redis and Sentinel behind passwords and TLS, on the real servers."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import RedisError

from hub.errors import StartRefused
from hub.settings.knobs import BadSetting, read_redis_url
from hub.settings.sentinel import read_sentinel_url
from hub.store.connection import open_store
from tests.certificates import Authority, Pair
from tests.world import free_port, settings_for, wait_until

Start = Callable[..., int]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start `redis-server` with these lines as its configuration, as a Sentinel if it is to be one; its port."""
    with contextlib.ExitStack() as stack:

        def begin(*lines: str, port: int = 0, answers: dict[str, object] | None = None, sentinel: bool = False) -> int:
            binary = shutil.which("redis-server")
            assert binary, "the tests need redis-server on the PATH"
            port = port or free_port()
            folder = tmp_path / str(port)
            folder.mkdir()
            (folder / "redis.conf").write_text("\n".join(["bind 127.0.0.1", f"dir {folder}", *lines, ""]))
            with (folder / "log").open("wb") as log:
                command = [binary, str(folder / "redis.conf"), *(["--sentinel"] if sentinel else [])]
                process = subprocess.Popen(command, stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.kill)
            client = Redis("127.0.0.1", port, **(answers or {}))
            stack.callback(client.close)

            def is_up() -> bool:
                assert process.poll() is None, (folder / "log").read_text()
                with contextlib.suppress(RedisError):
                    return bool(client.ping())
                return False

            wait_until(is_up)
            return port

        yield begin


def tls(authority: Authority, pair: Pair, port: int) -> list[str]:
    """Return the lines that make a server speak TLS alone, with clients that have a certificate as well."""
    return [
        "port 0", f"tls-port {port}", f"tls-cert-file {pair.cert}", f"tls-key-file {pair.key}",
        f"tls-ca-cert-file {authority.file}", "tls-auth-clients yes", "tls-replication yes",
    ]  # fmt: skip


def over_tls(authority: Authority, pair: Pair) -> dict[str, object]:
    """Options of a plain client that is let in."""
    return {"ssl": True, "ssl_ca_certs": authority.file, "ssl_certfile": pair.cert, "ssl_keyfile": pair.key}


async def works(url: str) -> bool:
    """Return whether a hub can be opened there."""
    async with open_store(settings_for(read_redis_url(url), redis_timeout_s=5)) as store:
        return bool(await store.read("PING"))


async def refusal(url: str) -> str:
    """Why none can."""
    with pytest.raises(StartRefused) as error:
        await works(url)
    return str(error.value)


SERVER_USER = "user hub on >redis-s3 ~* &* +@all"
SENTINEL_USER = "user watcher on >sentinel-s3 ~* &* +@all"


async def test_sentinel_and_server_may_have_different_users_and_passwords(start):
    port = free_port()
    known = {"username": "hub", "password": "redis-s3"}
    start(f"port {port}", "user default off", SERVER_USER, "save ''", port=port, answers=known)
    asked = free_port()
    start(
        f"port {asked}", f"sentinel monitor main 127.0.0.1 {port} 1", "sentinel auth-user main hub",
        "sentinel auth-pass main redis-s3", "user default off", SENTINEL_USER,
        port=asked, sentinel=True, answers={"username": "watcher", "password": "sentinel-s3"},
    )  # fmt: skip
    at = f"redis+sentinel://hub:redis-s3@127.0.0.1:{asked}/main/2"
    assert await works(f"{at}?sentinel_username=watcher&sentinel_password=sentinel-s3")
    with Redis("127.0.0.1", port, db=2, **known) as seen:
        assert seen.exists("hub:store")
    for wrong in (
        at,
        f"{at}?sentinel_password=sentinel-s3",
        f"{at}?sentinel_username=watcher&sentinel_password=wrong-s3",
        f"redis+sentinel://hub:wrong-s3@127.0.0.1:{asked}/main?sentinel_username=watcher&sentinel_password=sentinel-s3",
        f"redis+sentinel://:redis-s3@127.0.0.1:{asked}/main?sentinel_username=watcher&sentinel_password=sentinel-s3",
    ):
        said = await refusal(wrong)
        assert "-s3" not in said
        assert "does not" in said


async def test_sentinel_and_server_may_require_tls_with_client_certificates(start, tmp_path):
    authority = Authority(tmp_path)
    server, client = authority.issue("redis"), authority.issue("hub")
    port, asked = free_port(), free_port()
    known = {**over_tls(authority, client), "password": "redis-s3"}
    start(*tls(authority, server, port), "requirepass redis-s3", "save ''", port=port, answers=known)
    start(
        *tls(authority, server, asked), f"sentinel monitor main 127.0.0.1 {port} 1",
        "sentinel auth-pass main redis-s3", "requirepass sentinel-s3",
        port=asked, sentinel=True, answers={**over_tls(authority, client), "password": "sentinel-s3"},
    )  # fmt: skip
    at = f"rediss+sentinel://:redis-s3@127.0.0.1:{asked}/main?sentinel_password=sentinel-s3"
    shown = f"ssl_certfile={client.cert}&ssl_keyfile={client.key}"
    assert await works(f"{at}&ssl_ca_certs={authority.file}&{shown}")
    assert "does not" in await refusal(f"{at}&{shown}")  # an unknown authority
    assert "does not" in await refusal(f"{at}&ssl_ca_certs={authority.file}")  # a client without a certificate


async def test_a_server_may_require_tls_a_client_certificate_and_a_password(start, tmp_path):
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "stranger")
    server, client = authority.issue("redis"), authority.issue("hub", password="key-s3")
    port = free_port()
    plain = authority.issue("test")
    known = {**over_tls(authority, plain), "password": "redis-s3"}
    start(*tls(authority, server, port), "requirepass redis-s3", "save ''", port=port, answers=known)
    at = f"rediss://:redis-s3@127.0.0.1:{port}/0"
    shown = f"ssl_certfile={client.cert}&ssl_keyfile={client.key}&ssl_password=key-s3"
    assert await works(f"{at}?ssl_ca_certs={authority.file}&{shown}")
    for wrong, why in {
        f"{at}?{shown}": "certificate verify failed",
        f"{at}?ssl_ca_certs={stranger.file}&{shown}": "certificate verify failed",
        f"{at}?ssl_ca_certs={authority.file}": "does not answer",
        f"{at}?ssl_ca_certs={tmp_path / 'gone.pem'}&{shown}": "No such file",
        f"{at.replace('redis-s3', 'wrong-s3')}?ssl_ca_certs={authority.file}&{shown}": "does not let the hub in",
        f"redis://:redis-s3@127.0.0.1:{port}/0": "does not answer",
    }.items():
        said = await refusal(wrong)
        assert why in said, wrong
        assert "-s3" not in said


def test_every_part_of_a_sentinel_url_is_read():
    found = read_sentinel_url(
        "rediss+sentinel://me:p%40ss@[::1]:1,host,b:65535/ser%20vice/3?sentinel_username=w&sentinel_password=x%26y"
        "&ssl_ca_certs=/ca.pem&ssl_check_hostname=false"
    )
    over = {"ssl": True, "ssl_ca_certs": "/ca.pem", "ssl_check_hostname": False}
    assert found.hosts == (("::1", 1), ("host", 26379), ("b", 65535))
    assert found.service == "ser vice"
    assert found.server == {"db": 3, "username": "me", "password": "p@ss", **over}
    assert found.sentinel == {"username": "w", "password": "x&y", **over}
    bare = read_sentinel_url("redis+sentinel://a")
    assert (bare.hosts, bare.service, bare.server, bare.sentinel) == ((("a", 26379),), "mymaster", {"db": 0}, {})


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("redis+sentinel://a:1,/main", "names no Sentinels"),
        ("redis+sentinel://a:0/main", "names no Sentinels"),
        ("redis+sentinel://me:s3cret@a:70000/main", "names no Sentinels"),
        ("redis+sentinel://a/main/first", "names a database that is no number"),
        ("redis+sentinel://a/main?sentinel_pasword=s3cret", "has an option that is none of"),
        ("redis+sentinel://a/main?ssl_ca_certs=/ca.pem", "begins with rediss+sentinel://"),
        ("rediss+sentinel://a/main?ssl_check_hostname=perhaps", "neither true nor false"),
    ],
)
def test_an_invalid_sentinel_url_stops_the_start_with_one_sentence(url, why):
    with pytest.raises(BadSetting) as error:
        read_redis_url(url)
    assert why in str(error.value)
    assert "s3cret" not in str(error.value)
