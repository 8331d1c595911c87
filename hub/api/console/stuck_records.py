"""Stuck records in databases around the hub: counts by source, a source's records, and their reset."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from hub.api.handling.context import in_ms
from hub.api.inputs import Audit, Document, Hub, Page, Query
from hub.api.operations import unlisted
from hub.api.shapes.answer import Answer
from hub.api.shapes.readers import whole_number
from hub.errors import InvalidValue, NotFound, RecordsUnavailable
from hub.recovery.alerts import level
from hub.recovery.leadership import known_sources
from hub.recovery.models import Stuck
from hub.recovery.records import Records
from hub.recovery.report import DAYS_MAX, report
from hub.settings import Settings
from hub.store.store import Store
from hub.tokens.secrets import ADMIN
from hub.wire import time_text

router = APIRouter()
_LOOK_S: Final = 10.0
_IDS_MAX: Final = 1000
_COUNT_S: Final = 3.0
_COUNTED_FOR_S: Final = 5.0  # a count is kept so long


def _records(request: Request) -> Records:
    """Return the records of the source in the path; raises `NotFound` when this hub has not declared it."""
    source: str = request.path_params["source"]
    found: Records | None = request.app.state.stuck.records.get(source)
    if found is None:
        raise NotFound(f"This hub does not clean {source[:100]}: ask one that has declared it.")
    return found


RecordsOfSource = Annotated[Records, Depends(_records)]


@router.get("/console/stuck", **unlisted(page=True, who=(ADMIN,)))
async def sources(request: Request, hub: Hub) -> Response:
    """Return the sources that any hub has declared lately: records stuck now as far as this hub knows, the result of
    the last pass, and the hub that sweeps."""
    now = request.app.state.stuck
    found = await now.look(hub.store, request.app.state.sources, _COUNT_S)
    leads = await hub.store.read_all(("GET", hub.store.keys.zombie_leader(row["name"])) for row in found)
    rows = [
        {**row, "here": row["name"] in now.records, "declared": row["name"] in request.app.state.sources, "hub": hub_id}
        for row, hub_id in zip(found, leads, strict=True)
    ]
    settings = hub.settings
    return Answer(
        {
            "sources": rows, "enabled": settings.zombie_cleanup_enabled,
            "intervalMinutes": settings.zombie_cleanup_interval_minutes, "warningAbove": settings.zombie_warning_above,
            "criticalAbove": settings.zombie_critical_above, "now": in_ms(hub, 0),
        }
    )  # fmt: skip


@router.get("/console/report/stuck", **unlisted(page=True, who=(ADMIN,)))
async def tell(request: Request, hub: Hub, query: Query) -> Response:
    """Return what the passes over each source did on the last `days` days (UTC) with today; 7 by default."""
    days = whole_number(query.get("days", "7"), "days", 1, DAYS_MAX)
    return Answer({**await report(hub.store, request.app.state.sources, days), "now": in_ms(hub, 0)})


@router.get("/console/stuck/{source}", **unlisted(page=True, who=(ADMIN,)))
async def look(hub: Hub, source: str, records: RecordsOfSource, page: Page) -> Response:
    """Return the records that a reset would change, the longest stuck first, as a dry run does."""
    async with _in_time(source):
        total, found = await records.count(), await records.look(page[1])
    return Answer(
        {
            "source": source, "total": total, "records": [_shown(each) for each in found],
            "thresholdSeconds": records.source.threshold_s, "now": in_ms(hub, 0),
        }
    )  # fmt: skip


@router.post("/console/stuck/{source}/reset", **unlisted(page=True, who=(ADMIN,)))
async def reset(request: Request, source: str, records: RecordsOfSource, document: Document, audit: Audit) -> Response:
    """Reset those of these `ids` that are still stuck; each once, even if other hubs reset at the same time."""
    ids = document.get("ids")
    if not isinstance(ids, list) or not ids or len(ids) > _IDS_MAX or not all(isinstance(each, str) for each in ids):
        raise InvalidValue(f"ids must be a list of 1 to {_IDS_MAX} ids, as the look names them", member="ids")
    done: list[str] = []
    failed: list[str] = []
    size = records.source.batch_size
    async with _in_time(source):
        for start in range(0, len(ids), size):
            try:
                batch = await records.reset(ids[start : start + size])
            except ValueError as error:
                raise InvalidValue(f"ids: {error}", member="ids") from None
            done += batch.reset
            failed += batch.failed
    request.app.state.stuck.forget(source)
    left = sorted(set(ids) - {*done, *failed})
    await audit.write("admin", "records.reset", source=source, reset=len(done), failed=len(failed))
    return Answer({"source": source, "reset": done, "failed": failed, "notStuck": left})


class StuckNow:
    """The counts of stuck records by source, at most a few seconds old."""

    def __init__(self, records: Mapping[str, Records], settings: Settings) -> None:
        self.records = records
        self._settings = settings
        self._counted: dict[str, tuple[float, int | None]] = {}
        self._counting: dict[str, asyncio.Task[int | None]] = {}

    async def look(self, store: Store, declared: Sequence[str], patience_s: float) -> list[dict[str, Any]]:
        """Return a row for each source that a hub has declared lately: `stuck` now (None: not known in time), `found`
        by the last pass, and `level`, by `stuck` where it is known."""
        names = list(dict.fromkeys([*declared, *await known_sources(store)]))
        fields = ("found", "level", "before", "at")
        noted = await store.read_all(("HMGET", store.keys.zombies(name), *fields) for name in names)
        counts = await asyncio.gather(*(self._count(name, patience_s) for name in names))
        return [
            {
                "name": name, "stuck": stuck, "found": None if found is None else int(found),
                "level": self._level(stuck, found, level), "before": before, "atMs": None if at is None else int(at),
            }
            for name, stuck, (found, level, before, at) in zip(names, counts, noted, strict=True)
        ]  # fmt: skip

    def _level(self, stuck: int | None, found: str | None, noted: str | None) -> str:
        if stuck is None:
            return noted or "unknown"
        said = level(stuck, None, self._settings)[0]
        grew = noted == "warning" and found is not None and stuck >= int(found)  # as many as when it warned
        return "warning" if said == "ok" and grew else said

    async def _count(self, source: str, patience_s: float) -> int | None:
        """Return the records stuck in a source; None for a source unknown here, or too slow to answer."""
        if source not in self.records:
            return None
        asked_s, found = self._counted.get(source, (-_COUNTED_FOR_S, None))
        if time.monotonic() - asked_s < _COUNTED_FOR_S:
            return found
        if source not in self._counting:
            self._counting[source] = asyncio.create_task(self._ask(source), name=f"count of {source}")
        asking = self._counting[source]
        return asking.result() if (await asyncio.wait((asking,), timeout=patience_s))[0] else None

    async def _ask(self, source: str) -> int | None:
        try:
            found = await asyncio.wait_for(self.records[source].count(), _COUNT_S)
        except (TimeoutError, RecordsUnavailable):
            found = None
        if self._counting.get(source) is asyncio.current_task():  # unless `forget` was called
            self._counted[source] = time.monotonic(), found
            del self._counting[source]
        return found

    def forget(self, source: str) -> None:
        """Count a source anew at the next call, as records of it were reset."""
        self._counted.pop(source, None)
        self._counting.pop(source, None)


@asynccontextmanager
async def _in_time(source: str) -> AsyncIterator[None]:
    """Limit the time of a look at records: raise `RecordsUnavailable` when it is over."""
    try:
        async with asyncio.timeout(_LOOK_S):
            yield
    except TimeoutError:
        raise RecordsUnavailable(f"The records of {source} do not answer within {_LOOK_S:g} s.") from None


def _shown(stuck: Stuck) -> dict[str, Any]:
    return {
        "id": stuck.id, "status": stuck.status, "ageSeconds": round(stuck.age_s, 3), "resets": stuck.attempts,
        "updatedAt": time_text(stuck.updated_at.astimezone(UTC)),
    }  # fmt: skip
