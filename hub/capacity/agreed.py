"""What all hubs agree on: the settings that they must share, whichever of them was given others."""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from hub.capacity.shared import Shared, member, names, value_of
from hub.errors import UnknownReply
from hub.observability.logs import get_logger
from hub.settings import Settings
from hub.store.store import Store

PATIENT = 5  # rounds: of a hub that was restarted, what the one before it was given counts for three more seconds
_log = get_logger("hub.queue")


class SharedSetting(NamedTuple):
    """One setting: what holds, what hubs agree on, who set it when, and which hubs were given another."""

    name: str
    value: str
    agreed: str
    by: str | None
    at: str | None
    otherwise: dict[str, str]  # hub -> value


class Agreed:
    """Knows what holds for all hubs, as this one heard it last; asks anew with each round of the queue."""

    def __init__(self, store: Store, settings: Settings, hub_id: str) -> None:
        self.holds = self._given = Shared.of(settings)
        self._store = store
        self._hub_id = hub_id
        self._speaks = False  # whether what this process was given counts
        self._asked = False
        self._among_hubs: Shared | None = None  # what they agree on, without what an operator has set over it
        self._remembers = 0  # rounds for which a store that was lost is told what held, not what we were given
        self._differs = 0  # rounds for which settings of other hubs have held instead of ours
        self._agree = store.script("queue/agree")
        self._set_shared = store.script("queue/set_shared")
        store.when_replaced(self._again)

    async def agree(self, *, speaks: bool = True) -> None:
        """Say what this hub was given, and hear what holds. With `speaks` False it is no hub and overrules none.

        Of hubs that were given different settings those of the first hold, and the others follow. To a store that was
        emptied each says at first what held before: who is quick there is not the first.
        """
        self._speaks, self._asked = speaks, True
        mine = (self._among_hubs if self._remembers else None) or self._given
        text, *said = await self._agree(hub=self._hub_id if speaks else "", given=mine.text)
        self._among_hubs = Shared.read(text)
        self._remembers = max(0, self._remembers - 1)
        over = {name: orjson.loads(each)["value"] for name, each in zip(Shared._fields, said, strict=True) if each}
        self.holds = self._among_hubs.over(over)
        self._store.node_timeout_ms = self.holds.timeout_ms
        self._tell_differences(self._among_hubs)

    async def once(self) -> None:
        """Hear what holds if this process has not asked yet."""
        if not self._asked:
            await self.agree(speaks=False)

    async def round(self) -> None:
        """Ask anew: other hubs may have come, gone or taken over meanwhile."""
        if self._speaks:
            await self.agree()

    async def set(self, name: str, text: str | None, by: str) -> None:
        """Set a setting for all hubs, over what they were given, or clear it with None.

        Raises `NotFound` for a setting that hubs do not share, `BadInput` for a text that it cannot have.
        """
        value = "" if text is None else value_of(name, text)
        reply = await self._set_shared(name=member(name), value=value, by=by)
        if reply != ["ok"]:
            raise UnknownReply(self._set_shared.name, reply)
        await self.agree(speaks=self._speaks)

    async def look(self) -> list[SharedSetting]:
        """Return every setting, in the order in which they are compared."""
        keys = self._store.keys
        fields, heard = await self._store.read_all([("HGETALL", keys.store), ("ZRANGE", keys.hubs, 0, -1)])
        agreed = Shared.read(fields["shared"]) if "shared" in fields else self._given
        given = {hub: Shared.read(text).named() for hub in heard if (text := fields.get(f"given:{hub}"))}
        said: dict[str, dict[str, Any]] = {
            name: orjson.loads(text) for name in Shared._fields if (text := fields.get(f"set:{name}"))
        }
        holds = agreed.over({name: each["value"] for name, each in said.items()}).named()
        return [
            SharedSetting(
                name, holds[name], value, said.get(short, {}).get("by"), said.get(short, {}).get("at"),
                {hub: values[name] for hub, values in given.items() if values[name] != value},
            )
            for (name, short), value in zip(names().items(), agreed.named().values(), strict=True)
        ]  # fmt: skip

    async def _again(self) -> None:
        self._remembers = PATIENT
        await self.agree(speaks=self._speaks)

    def _tell_differences(self, agreed: Shared) -> None:
        """Say, once it has been so for a while, that hubs agree on other settings than this one was given."""
        found = self._given.differences(agreed)
        self._differs = self._differs + 1 if found else 0
        if self._differs == PATIENT:
            given, holds = (_joined({name: pair[side] for name, pair in found.items()}) for side in (0, 1))
            why = "hubs that run already have others, which hold for all until every hub has been given the same"
            _log.warning("settings differ between hubs", hub=self._hub_id, given=given, holds=holds, why=why)


def _joined(values: dict[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())
