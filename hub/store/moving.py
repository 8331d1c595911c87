"""Moving a store to another server while hubs run: they refuse calls while it is copied, and then use the new server.

    1. The store is marked as moving. From then on no hub can open it, so every call is refused and the hub clock stands
       still. A hub that was suspended at that moment finds out with its first call.
    2. All keys are copied. The new server is marked as being filled, so that no hub opens half a store.
    3. The mark in the old store is changed to: has moved. This decides the move. Until then it can be undone, and
       afterwards nothing is lent from the old server again.
    4. The mark on the new server is removed, and hubs open the store there: as after a restart, with tokens above all
       that were given.

Each step may be repeated. Each attempt has a turn, and each of its writes checks that the turn is still its own, so an
attempt that another one has replaced can change nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Any

from redis.exceptions import RedisError, WatchError

from hub.errors import HubError, UnknownReply
from hub.settings.knobs import mask_url
from hub.store.backup import commands_of, lines_of
from hub.store.faults import translated
from hub.store.scan import keys_of
from hub.store.store import Store

BATCH = 500  # commands that are sent together
WAIT_MS = 1000  # for replicas of the old server to hear that the store has moved; less than the timeout of an answer
_MARK = ("moving", "moving_by", "moving_to", "moving_generation", "moving_format")


class MoveRefused(HubError):
    """The move cannot begin, go on or be undone; the sentence says what to do."""

    code = "move-refused"


async def move(old: Store, new: Store, url: str) -> int:
    """Move all keys of the store `old` into the empty store `new`, which hubs will find under `url`. Neither need be
    open. Return how many keys were copied, 0 when an earlier call copied them.

    Raises `MoveRefused`, and `StoreUnavailable` when a server does not answer: then repeat the call, or undo the move
    with `stay`.
    """
    await _check_place(new, await old.read("HGET", old.keys.store, "moving"))
    by = secrets.token_hex(8)
    begin = old.script("store/move")
    match await begin(by=by, to=url):
        case [word, _, to] if to != url:
            raise MoveRefused(f"The store {'has moved' if word == 'moved' else 'moves'} to {mask_url(to)}, not there.")
        case ["moving", move_id, _]:
            turn = f"{move_id} {by}"
            await _take_turn(new, move_id, turn)
            keys = await _copy(old, new, turn)
            # If the new server was restarted or failed over since, it may have lost the last writes. This read then
            # raises, because its identity has changed.
            await new.read("GET", new.keys.restoring)
        case ["moved", move_id, _]:
            by = await old.read("HGET", old.keys.store, "moving_by")
            keys, turn = 0, await new.read("GET", new.keys.restoring)
        case ["none"]:
            raise MoveRefused("There is no store to move.")
        case reply:
            raise UnknownReply(begin.name, reply)
    await _decide(old, by)
    if turn is not None:
        await _write(new, turn, [("DEL", new.keys.restoring)])
    return keys


async def stay(old: Store) -> None:
    """Undo a move that is not decided yet; raises `MoveRefused` when the store has moved."""
    undo = old.script("store/stay")
    match await undo():
        case ["stays"]:
            return
        case ["moved", url]:
            raise MoveRefused(f"The store is at {mask_url(url)} by now; move it from there.")
        case reply:
            raise UnknownReply(undo.name, reply)


async def _check_place(new: Store, move_id: str | None) -> None:
    """Raise `MoveRefused` unless the new store is empty, or is being filled by the move `move_id`."""
    turn = await new.read("GET", new.keys.restoring)
    if turn is not None and not (move_id and turn.startswith(f"{move_id} ")):
        raise MoveRefused("A copy was begun there and not finished; empty that place first, or name another one.")
    if turn is None and move_id is None:
        async for names in keys_of(new, new.keys.prefix):
            if names:
                raise MoveRefused(f"The place is not empty: it has {names[0]}. Name one that is.")


async def _take_turn(new: Store, move_id: str, turn: str) -> None:
    """Mark the new store as being filled by this attempt; raises `MoveRefused` where there is a store already."""
    known = await new.read("GET", new.keys.restoring)
    if known is None and await new.read("EXISTS", new.keys.store):
        raise MoveRefused("A store is there already.")
    await _write(new, known, [("SET", new.keys.restoring, turn)])


async def _copy(old: Store, new: Store, turn: str) -> int:
    """Copy all keys into the new store, last `hub:store`, without which no hub can open it; return how many."""
    keys = 0
    commands: list[tuple[Any, ...]] = []
    last: list[tuple[Any, ...]] = []
    async for line in lines_of(old):
        keys += "more" not in line
        of_store = line["key"] == old.keys.store.removeprefix(old.keys.prefix)
        (last if of_store else commands).extend(commands_of(new.keys.prefix, line))
        if len(commands) >= BATCH:
            await _write(new, turn, commands)
            commands = []
    generation, known = await old.read("HMGET", old.keys.store, "moving_generation", "moving_format")
    record = ("HSET", new.keys.store, "generation", generation, "format", known, "run_id", "a copy")
    await _write(new, turn, [*commands, *last, record, ("HDEL", new.keys.store, *_MARK)])
    return keys


async def _write(new: Store, turn: str | None, commands: Iterable[tuple[Any, ...]]) -> None:
    """Run all commands in one transaction; raises `MoveRefused`, and runs none, when another attempt has the turn."""
    taken = MoveRefused("Another attempt to move the store has taken over.")
    try:
        async with new.client.pipeline(transaction=True) as pipe:
            await pipe.watch(new.keys.restoring)
            if await pipe.get(new.keys.restoring) != turn:
                raise taken
            pipe.multi()  # type: ignore[no-untyped-call]
            for command in commands:
                pipe.execute_command(*command)
            await pipe.execute()
    except WatchError:
        raise taken from None
    except (RedisError, OSError) as error:
        raise translated(error) from error


async def _decide(old: Store, by: str) -> None:
    """Mark the old store as moved, and wait until its replicas have that, because one of them may become the primary.

    Raises `MoveRefused` when another attempt has the turn, or not all replicas have confirmed it.
    """
    try:
        replicas = int((await old.client.info("replication")).get("connected_slaves", 0))
        async with old.client.pipeline(transaction=False) as pipe:
            pipe.execute_command(*old.library.call("store/moved", old.keys, [by]))
            pipe.execute_command("WAIT", replicas, WAIT_MS)
            answer, confirmed = await pipe.execute()
    except (RedisError, OSError) as error:
        raise translated(error) from error
    if answer != ["moved"]:
        raise MoveRefused("Another attempt to move the store has taken over, or it was undone.")
    if int(confirmed) < replicas:
        raise MoveRefused(f"{confirmed} of {replicas} replicas know that the store has moved; run it again.")
