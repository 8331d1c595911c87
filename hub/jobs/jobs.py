"""Jobs: to register, find and list them by full name, `room:category:name`."""

from __future__ import annotations

from functools import partial
from typing import Any

import orjson

from hub.errors import Forbidden, JobNotFound, Malformed, SchemaConflict, UnknownReply
from hub.jobs.models import Job, JobDemand, JobRequest, Page
from hub.jobs.names import SHARED, check_category, full_name, parse_full_name, schema_digest
from hub.jobs.pages import Pages
from hub.jobs.quotas import exceeded
from hub.jobs.recent import Recent
from hub.jobs.workers import superseded, unknown
from hub.observability.logs import get_logger
from hub.randoms import random_hex
from hub.settings import Settings
from hub.settings.realms import stamped
from hub.store.store import Store

LOOKED_AT_MAX = 2000  # most workers and tasks that `demand` reads: takes some milliseconds
_log = get_logger("hub.jobs")


class Jobs:
    """The jobs of a store."""

    def __init__(self, store: Store, settings: Settings, pages: Pages, recent: Recent) -> None:
        self._store = store
        self._realm = settings.realm
        self._categories = settings.allowed_categories
        self._pages = pages
        self._recent = recent
        self._register = store.script("jobs/register")
        self._ensure_internal = store.script("jobs/ensure_internal")
        self._mark_slow = store.script("jobs/mark_slow")
        self._describe = store.script("jobs/describe")
        self._demand = store.script("jobs/demand")

    async def register(self, wanted: JobRequest, schema: Any, user: str, superuser: bool) -> tuple[Job, bool]:
        """Register a job for a worker. Return the job with that worker, and whether it is new or was soft-deleted.

        `schema` is the parsed text of `wanted.schema`. Raises `Forbidden`, `InvalidCategory`, `SchemaConflict`,
        `Malformed` for a schema that took too long, `WorkerNotFound` and `QuotaExceeded`, in this order; a refusal
        leaves no trace.
        """
        if wanted.room in SHARED and not superuser:
            raise Forbidden(f"Only a superuser registers jobs in {wanted.room}")
        check_category(wanted.category, self._categories, "HUB_ALLOWED_CATEGORIES")
        full = full_name(wanted.room, wanted.category, wanted.name)
        register = partial(
            self._register, full=full, id=new_id(self._realm), schema=wanted.schema, digest=schema_digest(schema),
            worker=wanted.worker or new_id(self._realm), user=user, incarnation=wanted.incarnation,
            attempts=wanted.max_attempts, backoff_ms=wanted.backoff_ms, result_schema=wanted.result_schema,
            validate=int(wanted.validate), needs=wanted.needs, limits=wanted.limits,
        )  # fmt: skip
        reply = await register(made_for="known" if wanted.worker else "new")
        match reply:
            case [("created" | "joined") as word, job, worker, workers, *before]:
                self._recent.registered(
                    partial(register, made_for="told"), len(wanted.schema) + len(wanted.result_schema)
                )
                if before:
                    _log.warning(
                        "worker process replaced",
                        worker=worker,
                        incarnation=wanted.incarnation,
                        before=before[0],
                    )
                return Job(job, full, wanted.schema, tuple(workers), worker, wanted.result_schema), word == "created"
            case ["conflict"]:
                raise SchemaConflict(f"Job {full} is registered with another schema")
            case ["slow", took]:
                message = f"Checking a payload against this schema took {took}: it should need less"
                raise Malformed(errors=[{"type": "slow", "loc": ["body", "schema"], "msg": message, "input": None}])
            case ["quota", *refusal]:
                raise exceeded(refusal)
            case ["superseded"]:
                raise superseded(wanted.worker or "")
            case ["worker"]:
                raise unknown(wanted.worker or "")
        raise UnknownReply(self._register.name, reply)

    async def mark_slow(self, schema: str, took: str) -> None:
        """Note that checking a payload against this schema (JSON text) took too long: for a day, registering it is
        refused with `took`, a text that says how long.
        """
        await self._mark_slow(digest=schema_digest(orjson.loads(schema)), said=took)

    async def ensure_internal(self, full: str, schema: Any, text: str) -> None:
        """Register an `@internal` job that has an executor; its schema replaces any earlier one. `text` is `schema` as
        JSON.
        """
        await self._ensure_internal(full=full, id=new_id(self._realm), schema=text, digest=schema_digest(schema))

    async def get(self, full: str) -> Job:
        """Return the active job of this full name; raises `JobNotFound`."""
        found = await self._read([full])
        if not found:
            raise no_job(full)
        return found[0]

    async def page(self, room: str, limit: int, offset: int) -> Page[Job]:
        """Return a page of the active jobs of a room and of the rooms that all see, `@global` and `@internal`."""
        rooms = [room] if room in SHARED else [room, *SHARED]
        return await self._pages.read([self._store.keys.room_jobs(r) for r in rooms], limit, offset, self._read)

    async def demand(self, full: str) -> JobDemand:
        """Return the counts of a job's tasks and workers, from one script; also for a job without workers. Raises
        `JobNotFound` for text that is no full name.
        """
        if parse_full_name(full) is None:
            raise no_job(full)
        pending, put_off, held, workers, truncated, run_us = await self._demand(full=full, limit=LOOKED_AT_MAX)
        return JobDemand(full, pending, put_off, held, workers, bool(truncated), int(run_us) / 1e6 if run_us else None)

    async def _read(self, names: list[str]) -> list[Job]:
        return [_job(reply) for reply in await self._describe(rest=names) if reply]


def _job(reply: Any) -> Job:
    full, job, schema, workers, result_schema = reply
    return Job(job, full, schema, tuple(workers), result_schema=result_schema)


def new_id(realm: str = "") -> str:
    """Return a random UUID as 32 hex digits: version 4, in a named realm version 8 with the realm in it."""
    value = int(random_hex(16), 16) & ~(0xF << 76) & ~(0x3 << 62) | (0x4 << 76) | (0x2 << 62)
    return stamped(f"{value:032x}", realm)


def no_job(full: str) -> JobNotFound:
    """Return the refusal for a job that is not active, or for text that is no full name."""
    if parse_full_name(full) is None:
        return JobNotFound(f"Invalid job name format: {full!r} is not room:category:name")
    return JobNotFound(f"There is no active job {full}")
