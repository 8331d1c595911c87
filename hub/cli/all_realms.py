"""Questions to all realms of a hub at the same time; when one does not answer, only its own part is empty."""

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
    """The answer of one realm, or None with the reason in `error`."""

    realm: str
    as_of: str | None  # when the store of the realm answered last
    error: str | None
    answer: T | None

    def facts(self) -> dict[str, Any]:
        """Return the members of the part in the output of `--json`, except those of the answer."""
        return {"realm": self.realm, "asOf": self.as_of, "error": self.error}


async def each_realm(hub: HubApi, look: Callable[[HubApi], Awaitable[T]]) -> list[RealmPart[T]]:
    """Call `look` for each realm of a hub, and return the results in the order of the hub's list of realms."""

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
    """Return a note for each realm without an answer, and the exit code: 1 if there is such a realm, else 0."""
    silent = [part for part in parts if part.answer is None]
    return [f"realm {part.realm} is not shown: {part.error}" for part in silent], 1 if silent else 0
