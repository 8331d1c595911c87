"""The alert level of each source, kept in the store for all hubs. A change of level or growth is logged once."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from hub.errors import UnknownReply
from hub.observability.logs import get_logger
from hub.recovery.alerts import LEVELS, grown, growth, level
from hub.recovery.webhook import Webhook
from hub.settings import Settings
from hub.store.store import Store
from hub.wire import time_at

KEEP_S = 7 * 86_400.0  # levels are kept this long after the last pass, so that a long outage hides no alert
_log = get_logger("hub.sweeping")


@dataclass
class RecordSweep:
    """The result of one pass: how many records were stuck, reset and failed, and parked outcomes `written`."""

    source: str
    found: int = 0
    reset: int = 0
    failed: int = 0
    written: int = 0
    errors: int = 0
    elapsed_ms: float = 0

    @property
    def scanned(self) -> int:
        return self.found

    @property
    def eventful(self) -> bool:
        return bool(self.reset or self.failed or self.written or self.errors)

    @property
    def result(self) -> str:
        """Return the result as a label of the metric: `failed`, `repaired`, `held` or `clean`."""
        if self.errors:
            return "failed"
        if self.eventful:
            return "repaired"
        return "held" if self.found else "clean"

    def facts(self) -> dict[str, Any]:
        """Return the fields of the log line that sums up the pass."""
        return asdict(self)


class Levels:
    """The keeper of the alert levels in the store. The first hub that sees a level change logs and posts it, once."""

    def __init__(self, store: Store, settings: Settings, webhook: Webhook) -> None:
        self._store = store
        self._webhook = webhook
        self._settings = settings
        self._window_ms = int(settings.zombie_growth_window_minutes * 60_000)
        self._keep_ms = int(max(KEEP_S, 3 * settings.zombie_cleanup_interval_minutes * 60) * 1000)
        self._note_pass = store.script("recovery/note_pass")

    async def note(self, pass_id: str, found: int | None, done: RecordSweep) -> None:
        """Store the result of a pass of recovery (`found` None: it could not count); log and post a change of level."""
        if found is None:
            await self._keep(pass_id, "", "", done, again=False)
            return
        source = done.source
        seconds, micros = await self._store.read("TIME")
        now_ms = seconds * 1000 + micros // 1000
        counts = self._store.keys.zombie_counts(source)
        lowest = await self._store.read("ZRANGE", counts, now_ms - self._window_ms, "+inf", "BYSCORE", "LIMIT", 0, 1)
        least = int(lowest[0]) if lowest else None
        now, reason = level(found, least, self._settings)
        since = await self._growth_base(source, now_ms, least)
        again = now != LEVELS[0] and grown(found, since, self._settings)
        before = await self._keep(pass_id, str(found), now, done, again=again) or LEVELS[0]
        if again and now == before:
            reason = growth(found, since, self._settings)
        if again or now != before:
            at = time_at(now_ms / 1000)
            self._log_and_post(
                {"source": source, "level": now, "before": before, "reason": reason, "found": found, "at": at}
            )

    async def _growth_base(self, source: str, now_ms: int, least: int | None) -> int | None:
        """Return the number of stuck records from which growth is measured: that of the last alert, if it is within the
        window, else the least number in the window.
        """
        told, told_at = await self._store.read("HMGET", self._store.keys.zombies(source), "told", "told_at")
        return int(told) if told and told_at and now_ms - int(told_at) <= self._window_ms else least

    async def _keep(self, pass_id: str, found: str, now: str, done: RecordSweep, *, again: bool) -> str:
        match await self._note_pass(
            source=done.source, pass_id=pass_id, found=found, level=now, again="1" if again else "",
            window_ms=self._window_ms, keep_ms=self._keep_ms, reset=done.reset, failed=done.failed,
            written=done.written, errors=done.errors,
        ):  # fmt: skip
            case ["ok", str(before)]:
                return before
            case reply:
                raise UnknownReply(self._note_pass.name, reply)

    def _log_and_post(self, alert: dict[str, str | int]) -> None:
        # Every log line has a field `level` already.
        facts = {"alert" if name == "level" else name: fact for name, fact in alert.items() if name != "at"}
        match alert["level"]:
            case "critical":
                _log.critical("zombie alert", **facts)
            case "warning":
                _log.warning("zombie alert", **facts)
            case _:
                _log.info("zombie alert over", **facts)
        self._webhook.post(alert)
