"""Commands are packed by hiredis as redis-py packs them, on every kind of connection."""

from __future__ import annotations

from typing import Any

import pytest
from redis.asyncio.connection import Connection
from redis.exceptions import DataError

from hub.settings import Settings
from hub.store.connection import make_client
from hub.store.packing import PackedConnection

COMMANDS: list[tuple[Any, ...]] = [
    ("FCALL", "hub_1_capacity_borrow", 1, "hub:store", "gpu:a100", 300_000, 0, "", 2.5),
    ("CONFIG RESETSTAT",),  # two words, which go apart
    ("SET", "bytes that are no UTF-8", "\udcff"),
    ("SET", "ä", b"\xff\x00"),
    (b"SET", "numbers", 10**18, -0.1, 1e-7, 1e22),
    ("SET", "large", "x" * 100_000),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: str(command[:2])[:40])
def test_a_command_is_packed_into_the_same_bytes_as_by_redis_py(command: tuple[Any, ...]) -> None:
    options = {"decode_responses": True, "encoding_errors": "surrogateescape"}
    ours, theirs = PackedConnection(**options), Connection(**options)
    assert b"".join(ours.pack_command(*command)) == b"".join(theirs.pack_command(*command))


@pytest.mark.parametrize("argument", [True, None, ["a list"]])
def test_an_argument_that_is_neither_text_nor_number_is_refused(argument: object) -> None:
    with pytest.raises(DataError):
        PackedConnection().pack_command("SET", "name", argument)


@pytest.mark.parametrize(
    "url",
    [
        "redis://127.0.0.1:1",
        "rediss://127.0.0.1:1",
        "unix:///tmp/no.sock",
        "redis+sentinel://127.0.0.1:1/primary",
        "redis+cluster://127.0.0.1:1",
    ],
)
def test_every_kind_of_connection_uses_the_same_packing(url: str) -> None:
    settings = Settings(redis_url=url, key_prefix="{hub}:")
    kind = make_client(url, settings).connection_pool.connection_class
    assert kind.pack_command is PackedConnection.pack_command
