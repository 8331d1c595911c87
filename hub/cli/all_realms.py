"""The realms of a hub, asked side by side: one that does not answer empties its own part alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from hub.cli.connection import HubApi
from hub.errors import HubError

T = TypeVar("T")


@dataclass(frozen=True)
class RealmPart(Generic[T]):
    """The answer of one realm; `answer` is None where `error` says why there is none."""

    realm: str
    as_of: str | None  # when its store answered last
    error: str | None
    answer: T | None

    def facts(self) -> dict[str, Any]:
        """Return the head of the part, as `--json` shows it."""
        return {"realm": self.realm, "asOf": self.as_of, "error": self.error}


async def each_realm(hub: HubApi, look: Callable[[HubApi], Awaitable[T]]) -> list[RealmPart[T]]:
    """Return what a look at each realm of a hub has found, in the order of the hub's list."""

    async def part(realm: dict[str, Any]) -> RealmPart[T]:
        name, error, answer = str(realm["name"]), realm["error"], None
        if realm["state"] == "open":
            try:
                answer = await look(hub.within(name))
            except HubError as refusal:
                error = str(refusal)
        return RealmPart(name, realm["asOf"], error, answer)

    return await asyncio.gather(*map(part, (await hub.get("realms"))["realms"]))


def silent_realms(parts: list[RealmPart[T]]) -> tuple[list[str], int]:
    """Return a note for each realm of which nothing is known, and the exit code."""
    silent = [part for part in parts if part.answer is None]
    return [f"realm {part.realm} is not shown: {part.error}" for part in silent], 1 if silent else 0
