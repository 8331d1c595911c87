"""The alert level of each source, kept in the store for all hubs. A change of level or growth is logged once."""

from __future__ import annotations

from typing import NamedTuple

from hub.errors import UnknownReply
from hub.observability.logs import get_logger
from hub.recovery.alerts import LEVELS, Thresholds, grown, growth, level
from hub.recovery.webhook import Webhook
from hub.settings import Settings
from hub.store.store import Store
from hub.wire import time_at

KEEP_S = 7 * 86_400.0  # levels are kept this long after the last pass, so that a long outage hides no alert
_log = get_logger("hub.sweeping")


class Did(NamedTuple):
    """The numbers of one pass of recovery: records reset and failed, parked outcomes written, and errors."""

    reset: int = 0
    failed: int = 0
    written: int = 0
    errors: int = 0


NOTHING = Did()


class Levels:
    """The keeper of the alert levels in the store. The first hub that sees a level change logs and posts it, once."""

    def __init__(self, store: Store, settings: Settings, webhook: Webhook) -> None:
        self._store = store
        self._webhook = webhook
        self._thresholds = Thresholds.of(settings)
        self._window_ms = int(settings.zombie_growth_window_minutes * 60_000)
        self._keep_ms = int(max(KEEP_S, 3 * settings.zombie_cleanup_interval_minutes * 60) * 1000)
        self._note_pass = store.script("recovery/note_pass")

    async def note(self, source: str, pass_id: str, found: int | None, did: Did = NOTHING) -> None:
        """Store the result of a pass of recovery (`found` None: it could not count); log and post a change of level."""
        if found is None:
            await self._keep(source, pass_id, "", "", did, again=False)
            return
        seconds, micros = await self._store.read("TIME")
        now_ms = seconds * 1000 + micros // 1000
        counts = self._store.keys.zombie_counts(source)
        lowest = await self._store.read("ZRANGE", counts, now_ms - self._window_ms, "+inf", "BYSCORE", "LIMIT", 0, 1)
        least = int(lowest[0]) if lowest else None
        now, reason = level(found, least, self._thresholds)
        since = await self._told_lately(source, now_ms, least)
        again = now != LEVELS[0] and grown(found, since, self._thresholds)
        before = await self._keep(source, pass_id, str(found), now, did, again=again) or LEVELS[0]
        if again and now == before:
            reason = growth(found, since, self._thresholds)
        if again or now != before:
            at = time_at(now_ms / 1000)
            self._tell({"source": source, "level": now, "before": before, "reason": reason, "found": found, "at": at})

    async def _told_lately(self, source: str, now_ms: int, least: int | None) -> int | None:
        """Return the number of stuck records from which growth is measured: that of the last alert, if it is within the
        window, else the least number in the window.
        """
        told, told_at = await self._store.read("HMGET", self._store.keys.zombies(source), "told", "told_at")
        return int(told) if told and told_at and now_ms - int(told_at) <= self._window_ms else least

    async def _keep(self, source: str, pass_id: str, found: str, now: str, did: Did, *, again: bool) -> str:
        match await self._note_pass(
            source=source, pass_id=pass_id, found=found, level=now, window_ms=self._window_ms, keep_ms=self._keep_ms,
            again="1" if again else "", reset=did.reset, failed=did.failed, written=did.written, errors=did.errors,
        ):  # fmt: skip
            case ["ok", str(before)]:
                return before
            case reply:
                raise UnknownReply(self._note_pass.name, reply)

    def _tell(self, alert: dict[str, str | int]) -> None:
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
