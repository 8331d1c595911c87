"""Moving a store to another server while hubs run: they stand by for as long as it is copied, and follow it then.

    1. From one moment to the next the store is marked as one that moves: no hub opens it, so every call is refused, and
       the hub clock stands still. A hub that stood still meanwhile finds out with its first call.
    2. Everything is copied. The other server is marked as one that is being filled, so that nobody opens half a store.
    3. The mark says that the store has moved. That is the one moment in which the move is decided; until then it can be
       undone, and afterwards nothing is lent from the first server again.
    4. The other mark is taken away, and hubs open the store there: as after a restart, with tokens above all others.

Each step may be repeated. An attempt that goes on after another one has taken over can do nothing: each of its writes
asks whose turn it is.
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
WAIT_MS = 1000  # for replicas of the first server to hear that the store has moved; answers are waited for longer
_MARK = ("moving", "moving_by", "moving_to", "moving_generation", "moving_format")


class MoveRefused(HubError):
    """The move cannot begin, go on or be undone; the sentence says what to do."""

    code = "move-refused"


async def move(old: Store, new: Store, url: str) -> int:
    """Move everything from one store into another, which is empty, and which hubs are to find under this URL; how many
    keys were copied, 0 when that was done before. Neither need be open.

    Raises `MoveRefused`, and `StoreUnavailable` when one of them does not answer: repeat it, or undo it with `stay`.
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
            # A server that was restarted or has taken over since may have lost what was written last: its identity is
            # another one, and no connection is made to it.
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
    """Undo a move that is not over; raises `MoveRefused` for one that is."""
    undo = old.script("store/stay")
    match await undo():
        case ["stays"]:
            return
        case ["moved", url]:
            raise MoveRefused(f"The store is at {mask_url(url)} by now; move it from there.")
        case reply:
            raise UnknownReply(undo.name, reply)


async def _check_place(new: Store, move_id: str | None) -> None:
    """Check that the new store is empty, or holds what comes from this move."""
    turn = await new.read("GET", new.keys.restoring)
    if turn is not None and not (move_id and turn.startswith(f"{move_id} ")):
        raise MoveRefused("A copy was begun there and not finished; empty that place first, or name another one.")
    if turn is None and move_id is None:
        async for names in keys_of(new, new.keys.prefix):
            if names:
                raise MoveRefused(f"The place is not empty: it has {names[0]}. Name one that is.")


async def _take_turn(new: Store, move_id: str, turn: str) -> None:
    """Mark the new store as one that is being filled by this attempt."""
    known = await new.read("GET", new.keys.restoring)
    if known is None and await new.read("EXISTS", new.keys.store):
        raise MoveRefused("A store is there already.")
    await _write(new, known, [("SET", new.keys.restoring, turn)])


async def _copy(old: Store, new: Store, turn: str) -> int:
    """Write everything into the new store, and last what makes it one."""
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
    """Carry all of them out, or none of them when it is the turn of another attempt."""
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
    """Say in the old store, and in the replicas it has now, that it has moved: one that takes over must know."""
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
