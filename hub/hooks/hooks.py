"""The hooks of a store: added, shown, paused and removed for all hubs at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hub.errors import InvalidValue, NotFound, QuotaExceeded, UnknownReply
from hub.hooks.messages import id_of, wants
from hub.hooks.sending import Target
from hub.store.store import Store

HOOKS_MAX = 100
FIELDS = (
    "url", "on", "label", "user", "format", "by", "at", "paused", "delivered", "failed", "dropped", "last", "last_at",
)  # fmt: skip
Hook = dict[str, str]  # `id`, `waiting` and `FIELDS`; '' for what it does not have


class Hooks:
    """The hooks of a store. A secret is read only to sign with it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._add, self._pause = store.script("hooks/add"), store.script("hooks/pause")
        self._remove = store.script("hooks/remove")

    async def add(self, facts: Mapping[str, str], secret: str) -> Hook:
        """Add a hook with these facts (`FIELDS` up to `by`) and this signing secret, and return it; raises
        `InvalidValue` for the secret of another hook, and `QuotaExceeded` beyond `HOOKS_MAX`."""
        hook = id_of(secret)
        match await self._add(id=hook, wants=wants(facts["on"]), secret=secret, most=HOOKS_MAX, **facts):
            case ["ok"]:
                return await self.get(hook)
            case ["taken"]:
                raise InvalidValue("secret is of another hook; make a new one", member="secret")
            case ["full"]:
                raise QuotaExceeded(f"There are {HOOKS_MAX} hooks, as many as there may be.")
            case reply:
                raise UnknownReply(self._add.name, reply)

    async def get(self, hook: str) -> Hook:
        """Return the hook with this id; raises `NotFound`."""
        if found := await self._read([hook]):
            return found[0]
        raise _unknown(hook)

    async def all(self) -> list[Hook]:
        """Return all hooks, newest first."""
        return await self._read(await self._store.read("ZREVRANGE", self._store.keys.hooks, 0, HOOKS_MAX - 1))

    async def stuck(self) -> list[Hook]:
        """Return the hooks that hubs have paused because they take no message."""
        return await self._read(await self._store.read("HKEYS", self._store.keys.hooks_paused))

    async def target(self, hook: str) -> Target:
        """Return where the messages of a hook go; raises `NotFound`."""
        row = await self._store.read("HMGET", self._store.keys.hook(hook), *Target._fields)
        if None in row:
            raise _unknown(hook)
        return Target(*row)

    async def pause(self, hook: str, why: str) -> Hook:
        """Pause a hook for this reason, or resume it with ''; return it. Raises `NotFound`."""
        if await self._pause(id=hook, why=why) != ["ok"]:
            raise _unknown(hook)
        return await self.get(hook)

    async def remove(self, hook: str) -> None:
        """Remove a hook with what waits for it; raises `NotFound`."""
        if await self._remove(id=hook) != ["ok"]:
            raise _unknown(hook)

    async def _read(self, ids: Sequence[str]) -> list[Hook]:
        keys = self._store.keys
        rows = await self._store.read_all(("HMGET", keys.hook(each), *FIELDS) for each in ids)
        waiting = await self._store.read_all(("XLEN", keys.hook_queue(each)) for each in ids)
        return [
            {"id": each, "waiting": str(number)} | {name: text or "" for name, text in zip(FIELDS, row, strict=True)}
            for each, row, number in zip(ids, rows, waiting, strict=True)
            if row[0] is not None
        ]


def _unknown(hook: str) -> NotFound:
    return NotFound(f"No hook has the id {hook[:80]!r}.")
