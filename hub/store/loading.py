"""The library on a server: it is loaded where it is missing, and one that nobody uses any more can be found."""

from __future__ import annotations

from typing import Any

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from hub.store.library import LAST_USED, Library

MISSING = "Function not found"  # what Redis says of a library that it does not have
_KNOWN = "already exists"


async def load(client: Redis, library: Library) -> None:
    """Give the server the library; another hub may have done so."""
    try:
        await client.execute_command("FUNCTION LOAD", library.text)  # type: ignore[no-untyped-call]
    except ResponseError as error:
        if _KNOWN not in str(error):
            raise


async def call(client: Redis, library: Library, command: tuple[Any, ...]) -> Any:
    """Return the answer of a command, which may be the first that this server hears of the library."""
    try:
        return await client.execute_command(*command)  # type: ignore[no-untyped-call]
    except ResponseError as error:
        if MISSING not in str(error):
            raise
    await load(client, library)
    return await client.execute_command(*command)  # type: ignore[no-untyped-call]


async def last_used(client: Redis, name: str) -> int | None:
    """Return when a hub used a library last, by the time of Redis in ms; None when no hub did since this server was
    started.

    It counts hubs of all prefixes and databases; raises `ResponseError` where there is no such library.
    """
    used_ms = int(await client.execute_command("FCALL", f"{name}_{LAST_USED}", 0))  # type: ignore[no-untyped-call]
    return used_ms if used_ms >= 0 else None


async def idle_libraries(client: Redis, own: Library) -> dict[str, float]:
    """Return the libraries of other versions of the hub: for how many seconds no hub has used each.

    One that was not used since the server was started is as idle as that is long; one that does not say is left out.
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
