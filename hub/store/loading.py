"""The library on a Redis server: to load it where it is missing, and to find libraries that no hub uses any more."""

from __future__ import annotations

from typing import Any

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from hub.store.library import LAST_USED, Library

MISSING = "Function not found"  # what Redis says of a library that it does not have
_KNOWN = "already exists"


async def load(client: Redis, library: Library) -> None:
    """Load the library on the server, unless another hub has loaded it already."""
    try:
        await client.execute_command("FUNCTION LOAD", library.text)  # type: ignore[no-untyped-call]
    except ResponseError as error:
        if _KNOWN not in str(error):
            raise


async def call(client: Redis, library: Library, command: tuple[Any, ...]) -> Any:
    """Send a call of the library and return its answer; where the server lacks the library, load it and send again."""
    try:
        return await client.execute_command(*command)  # type: ignore[no-untyped-call]
    except ResponseError as error:
        if MISSING not in str(error):
            raise
    await load(client, library)
    return await client.execute_command(*command)  # type: ignore[no-untyped-call]


async def last_used(client: Redis, name: str) -> int | None:
    """Return the time of Redis, in ms, at which a hub used a library last; None when none has since the server started.

    Hubs of all prefixes and databases count. Raises `ResponseError` where there is no such library.
    """
    used_ms = int(await client.execute_command("FCALL", f"{name}_{LAST_USED}", 0))  # type: ignore[no-untyped-call]
    return used_ms if used_ms >= 0 else None


async def idle_libraries(client: Redis, own: Library) -> dict[str, float]:
    """Return each library of another version of the hub -> the seconds for which no hub has used it.

    For a library that was not used since the server started, these are the seconds since that start. A library that
    cannot be asked is left out.
    """
    listed = await client.execute_command("FUNCTION LIST", "LIBRARYNAME", "hub_*")  # type: ignore[no-untyped-call]
    names = [each["library_name"] if isinstance(each, dict) else each[1] for each in listed]
    seconds, _ = await client.time()
    found = {}
    for name in names:
        if name == own.name:
            continue
        try:
            used_ms = await last_used(client, name)
        except ResponseError:
            continue
        up_s = float((await client.info("server")).get("uptime_in_seconds", 0))
        found[name] = up_s if used_ms is None else max(0.0, int(seconds) - used_ms / 1000)
    return found
