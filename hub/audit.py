"""The audit log: who changed what, newest first, trimmed. A failure to write it never fails a request."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

import orjson

from hub.errors import ForeignKey, StoreUnavailable
from hub.observability.logs import get_logger
from hub.store.store import Store

_log = get_logger("hub.audit")


def time_text(moment: datetime) -> str:
    """A time as the wire writes it: UTC, seven fractional digits and `Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") + "0Z"


def to_json(document: Any) -> bytes:
    """JSON, also of what other programs put into Redis: bytes that are not UTF-8, deep nesting, endless numbers."""
    try:
        return orjson.dumps(document)
    except TypeError:
        return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def entry(
    category: str,
    action: str,
    *,
    actor: str | None = None,
    remote_ip: str | None = None,
    correlation_id: str | None = None,
    severity: str = "Info",
    **details: Any,
) -> str:
    """An audit entry as it is stored: PascalCase members, details as text."""
    return to_json(
        {
            "TimestampUtc": time_text(datetime.now(UTC)),
            "Category": category,
            "Action": action,
            "Actor": actor,
            "RemoteIp": remote_ip,
            "CorrelationId": correlation_id,
            "Severity": severity,
            "Details": {name: str(value) for name, value in details.items()},
        }
    ).decode()


class AuditLog:
    """Keeps audit entries."""

    def __init__(self, store: Store, max_entries: int) -> None:
        self._store = store
        self.max_entries = max_entries

    async def write(self, category: str, action: str, **facts: Any) -> None:
        """Add an entry; a store that does not take it costs a log line and nothing else."""
        try:
            await self._store.read("LPUSH", self._store.keys.audit, entry(category, action, **facts))
            await self._store.read("LTRIM", self._store.keys.audit, 0, self.max_entries - 1)
        except (StoreUnavailable, ForeignKey) as error:
            _log.warning("audit entry lost", category=category, action=action, why=str(error))

    async def read(
        self, skip: int, take: int, category: str | None, action: str | None, since: datetime | None
    ) -> list[dict[str, Any]]:
        """Entries that fit, newest first, members in camelCase; what cannot be read is left out."""
        texts = await self._store.read("LRANGE", self._store.keys.audit, 0, self.max_entries - 1)
        found = [shown for shown in map(_camel, texts) if shown and _fits(shown, category, action, since)]
        return found[skip : skip + take]

    async def note_secrets(self, kind: str, secrets: str) -> None:
        """Record at start which secrets are in force, by fingerprint; a change since the last start is a Warning."""
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
        await self._store.read("SET", key, fingerprint)


def _camel(text: str) -> dict[str, Any] | None:
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(document, dict):
        return None
    return {name[:1].lower() + name[1:]: value for name, value in document.items()}


def _fits(shown: dict[str, Any], category: str | None, action: str | None, since: datetime | None) -> bool:
    if category and str(shown.get("category", "")).lower() != category.lower():
        return False
    if action and str(shown.get("action", "")).lower() != action.lower():
        return False
    return since is None or str(shown.get("timestampUtc", "")) >= time_text(since)
