"""The settings that all hubs of a store share. The values that the hubs agree on hold for all of them, also for a hub
that was started with other values.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from hub.capacity.shared import Shared, member, names, value_of
from hub.errors import UnknownReply
from hub.observability.logs import get_logger
from hub.settings import Settings
from hub.store.store import Store

PATIENT = 5  # rounds, one a second: when a hub restarts, the settings of its old process count for three more seconds
_log = get_logger("hub.queue")


class SharedSetting(NamedTuple):
    """A setting that hubs share. `value` holds now. An operator may have set it (`by`, `at`); else it is `agreed`."""

    name: str
    value: str
    agreed: str
    by: str | None
    at: str | None
    otherwise: dict[str, str]  # hub -> the value it was given, for each hub that was given another than `agreed`


class Agreed:
    """The shared settings as this hub read them last: `holds`. Each round of the queue reads them from the store."""

    def __init__(self, store: Store, settings: Settings, hub_id: str) -> None:
        self.holds = self._given = Shared.of(settings)
        self._store = store
        self._hub_id = hub_id
        self._speaks = False  # whether the settings that this process was given count: only those of a hub do
        self._asked = False
        self._among_hubs: Shared | None = None  # what the hubs agree on, before the values that an operator has set
        self._remembers = 0  # rounds left in which a store that was lost is told what held before, not `_given`
        self._differs = 0  # rounds so far in which other settings have held than those that this hub was given
        self._agree = store.script("queue/agree")
        self._set_shared = store.script("queue/set_shared")
        store.when_replaced(self._again)

    async def agree(self, *, speaks: bool = True) -> None:
        """Tell the store which settings this hub was given, and read from it those that hold, into `holds`.

        With `speaks` False this process is not a hub: it only reads. If hubs were given different settings, those of
        the hub that came first hold for all. After the store was emptied, each hub tells it for `PATIENT` rounds what
        held before, so that being quick to reach the store does not decide which settings hold.
        """
        self._speaks, self._asked = speaks, True
        mine = (self._among_hubs if self._remembers else None) or self._given
        text, *stored = await self._agree(hub=self._hub_id if speaks else "", given=mine.text)
        self._among_hubs = Shared.read(text)
        self._remembers = max(0, self._remembers - 1)
        over = {name: orjson.loads(each)["value"] for name, each in zip(Shared._fields, stored, strict=True) if each}
        self.holds = self._among_hubs.over(over)
        self._store.node_timeout_ms = self.holds.timeout_ms
        self._tell_differences(self._among_hubs)

    async def once(self) -> None:
        """Read the settings that hold if this process has not read them yet."""
        if not self._asked:
            await self.agree(speaks=False)

    async def round(self) -> None:
        """Read again the settings that hold, as hubs may have come or gone. A process that is no hub skips this."""
        if self._speaks:
            await self.agree()

    async def set(self, name: str, text: str | None, by: str) -> None:
        """Set a shared setting for all hubs, over the values that they were given; None removes it again.

        `by` names the operator who sets it.

        Raises `NotFound` for a setting that hubs do not share, `BadInput` for a value that the setting cannot have.
        """
        value = "" if text is None else value_of(name, text)
        reply = await self._set_shared(name=member(name), value=value, by=by)
        if reply != ["ok"]:
            raise UnknownReply(self._set_shared.name, reply)
        await self.agree(speaks=self._speaks)

    async def look(self) -> list[SharedSetting]:
        """Return every shared setting, in the order of `Shared`."""
        keys = self._store.keys
        fields, heard = await self._store.read_all([("HGETALL", keys.store), ("ZRANGE", keys.hubs, 0, -1)])
        agreed = Shared.read(fields["shared"]) if "shared" in fields else self._given
        given = {hub: Shared.read(text).named() for hub in heard if (text := fields.get(f"given:{hub}"))}
        stored: dict[str, dict[str, Any]] = {
            name: orjson.loads(text) for name in Shared._fields if (text := fields.get(f"set:{name}"))
        }
        holds = agreed.over({name: each["value"] for name, each in stored.items()}).named()
        return [
            SharedSetting(
                name, holds[name], value, stored.get(short, {}).get("by"), stored.get(short, {}).get("at"),
                {hub: values[name] for hub, values in given.items() if values[name] != value},
            )
            for (name, short), value in zip(names().items(), agreed.named().values(), strict=True)
        ]  # fmt: skip

    async def _again(self) -> None:
        self._remembers = PATIENT
        await self.agree(speaks=self._speaks)

    def _tell_differences(self, agreed: Shared) -> None:
        """Log a warning once this hub was given other settings than the hubs agree on for `PATIENT` rounds in a row."""
        found = self._given.differences(agreed)
        self._differs = self._differs + 1 if found else 0
        if self._differs == PATIENT:
            given, holds = (_joined({name: pair[side] for name, pair in found.items()}) for side in (0, 1))
            why = "hubs that run already have others, which hold for all until every hub has been given the same"
            _log.warning("settings differ between hubs", hub=self._hub_id, given=given, holds=holds, why=why)


def _joined(values: dict[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())
