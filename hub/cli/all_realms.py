"""What is shown of all realms: they are asked side by side, and one that does not answer empties its own part alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from hub.cli import output
from hub.cli.connection import HubApi
from hub.errors import HubError

T = TypeVar("T")


@dataclass(frozen=True)
class RealmPart(Generic[T]):
    """What one realm said; `found` is None where `error` says why it did not."""

    realm: str
    as_of: str | None  # when its store answered last
    error: str | None
    found: T | None

    def facts(self) -> dict[str, Any]:
        """The head of the part, as `--json` shows it."""
        return {"realm": self.realm, "asOf": self.as_of, "error": self.error}


async def each_realm(hub: HubApi, look: Callable[[HubApi], Awaitable[T]]) -> list[RealmPart[T]]:
    """What a look at each realm of a hub has found, in the order of the hub's list."""

    async def part(realm: dict[str, Any]) -> RealmPart[T]:
        name, error, found = str(realm["name"]), realm["error"], None
        if realm["state"] == "open":
            try:
                found = await look(hub.within(name))
            except HubError as refusal:
                error = str(refusal)
        return RealmPart(name, realm["asOf"], error, found)

    return await asyncio.gather(*map(part, (await hub.get("realms"))["realms"]))


def note_errors(parts: list[RealmPart[T]]) -> int:
    """Say of which realms nothing is known, and why; the exit code."""
    silent = [part for part in parts if part.found is None]
    for part in silent:
        output.note(output.one_line(f"realm {part.realm} is not shown: {part.error}"))
    return 1 if silent else 0
