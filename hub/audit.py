"""The audit log: who changed what, newest first; the oldest entries are dropped. A failed write fails no request."""

from __future__ import annotations

import hashlib
import heapq
import time
from collections import Counter, OrderedDict
from datetime import datetime
from functools import partial
from typing import Any

import orjson

from hub.errors import ForeignKey, StoreFull, StoreUnavailable
from hub.observability import metrics
from hub.observability.logs import get_logger
from hub.store.store import Store
from hub.wire import time_text, to_json

REFUSAL_S = 60.0  # least time between two entries of refusals with the same address and reason
REFUSALS_EACH = 10  # most entries of refusals a minute from one address
REFUSALS_PER_MINUTE = 600  # most entries of refusals a minute from all addresses
SLACK = 200  # entries by which the list may exceed its bound before the store trims it
REFUSALS_MAX = 1000
_log = get_logger("hub.audit")


def entry(
    category: str,
    action: str,
    *,
    actor: str | None = None,
    by: str | None = None,
    remote_ip: str | None = None,
    correlation_id: str | None = None,
    severity: str = "Info",
    **details: Any,
) -> str:
    """Return an audit entry as JSON: PascalCase members, details as text. The store adds the time.

    `actor` is the name that the caller gives itself, `by` names the credential (secret or token) that it used.
    """
    return to_json(
        {
            "Category": category,
            "Action": action,
            "Actor": actor,
            "By": by,
            "RemoteIp": remote_ip,
            "CorrelationId": correlation_id,
            "Severity": severity,
            "Details": {name: str(value) for name, value in details.items()},
        }
    ).decode()


class AuditLog:
    """The audit entries of a store."""

    def __init__(self, store: Store, max_entries: int) -> None:
        self._store = store
        self._write = store.script("store/audit")
        self.max_entries = max_entries
        self._written: OrderedDict[tuple[str | None, ...], float] = OrderedDict()  # refusals of the last minute -> when
        self._left_out: Counter[tuple[str | None, ...]] = Counter()  # refusals since then that got no entry

    async def write(self, category: str, action: str, **facts: Any) -> None:
        """Add an entry. Where the store does not take it, log a warning; nothing is raised."""
        await self._add("", self.max_entries, category, action, **facts)

    async def _add(self, refused: str, most: int, category: str, action: str, /, **facts: Any) -> None:
        try:
            await self._write(refused=refused, entry=entry(category, action, **facts), max=most)
        except (StoreUnavailable, ForeignKey) as error:
            _log.warning("audit entry lost", category=category, action=action, why=str(error))

    async def refused(self, category: str, action: str, remote_ip: str | None, reason: str) -> None:
        """Add an entry for a refused call to a list of its own, so that many refusals push no other entry out.

        There is at most one entry a minute for the same address and reason, and ten a minute for one address, so that
        it leaves room for others. An entry says how many refusals were left out since the last one.
        """
        metrics.refusals.labels(action, reason).inc()
        what, now = (category, action, remote_ip, reason), time.monotonic()
        while self._written and now - next(iter(self._written.values())) >= REFUSAL_S:
            self._written.popitem(last=False)
        of_address = sum(written[2] == remote_ip for written in self._written)
        if what in self._written or of_address >= REFUSALS_EACH or len(self._written) >= REFUSALS_PER_MINUTE:
            self._left_out[what if what in self._written else ()] += 1
            return
        self._written[what] = now
        left_out = self._left_out.pop(what, 0) + self._left_out.pop((), 0)
        facts: dict[str, Any] = {"reason": reason, **({"leftOut": left_out} if left_out else {})}
        await self._add("1", REFUSALS_MAX, category, action, severity="Warning", remote_ip=remote_ip, **facts)

    async def read(
        self, skip: int, take: int, category: str | None, action: str | None, since: datetime | None, text: str = ""
    ) -> list[dict[str, Any]]:
        """Return the entries that match and contain `text`, newest first, members in camelCase: `take` after `skip`.

        Refusals are among them. Unreadable entries are left out.
        """
        keys = self._store.keys
        done, refused = await self._store.read_all(
            [
                ("LRANGE", keys.audit, 0, self.max_entries + SLACK - 1),
                ("LRANGE", keys.refusals, 0, REFUSALS_MAX + SLACK - 1),
            ]
        )
        lists = ([shown for shown in map(_camel, texts) if shown] for texts in (done, refused))
        merged = heapq.merge(*lists, key=lambda shown: str(shown.get("timestampUtc", "")), reverse=True)
        found = [shown for shown in merged if _fits(shown, category, action, since) and _contains(shown, text)]
        return found[skip : skip + take]

    async def note_secrets(self, kind: str, secrets: str) -> None:
        """Add an entry at the start of a hub with a fingerprint of the secrets in force, if it has changed or is new.

        A change since the last start is a Warning. While several secrets are in force, another entry says so at each
        start.
        """
        members = [member.strip() for member in secrets.split(",") if member.strip()]
        fingerprint = hashlib.sha256(",".join(members).encode()).hexdigest().upper()
        key = self._store.keys.audit_fingerprint(kind)
        before = await self._store.read("GET", key)
        facts = {"count": len(members), "fingerprint": fingerprint[:8]}
        if before is None:
            await self.write("secrets", f"{kind}.loaded", **facts)
        elif before != fingerprint:
            await self.write("secrets", f"{kind}.changed", severity="Warning", **facts)
        if len(members) > 1:
            await self.write("secrets", f"{kind}.rotation.enabled", count=len(members))
        if before != fingerprint:
            remember = partial(self._remember, key, fingerprint)
            try:
                await remember()
            except StoreFull:
                self._store.later(remember)

    async def _remember(self, key: str, fingerprint: str) -> None:
        await self._store.read("SET", key, fingerprint)


def _camel(text: str) -> dict[str, Any] | None:
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(document, dict):
        return None
    return {name[:1].lower() + name[1:]: value for name, value in document.items()}


def _contains(shown: dict[str, Any], text: str) -> bool:
    return text.lower() in orjson.dumps(shown).decode().lower() if text else True


def _fits(shown: dict[str, Any], category: str | None, action: str | None, since: datetime | None) -> bool:
    if category and str(shown.get("category", "")).lower() != category.lower():
        return False
    if action and str(shown.get("action", "")).lower() != action.lower():
        return False
    return since is None or str(shown.get("timestampUtc", "")) >= time_text(since)
