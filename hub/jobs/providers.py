"""Providers: to register and list them, to ask them for data, and to keep their results for a while."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from hub.errors import (
    Forbidden,
    ProviderNotFound,
    ProviderTimeout,
    ResultNotAsked,
    TooLarge,
    UnknownReply,
)
from hub.jobs.jobs import new_id
from hub.jobs.models import Page, ProviderRecord, ProviderRequest
from hub.jobs.names import GLOBAL, SHARED, check_category, dashed, full_name, params_hash, params_text, parse_full_name
from hub.jobs.pages import Pages
from hub.jobs.quotas import exceeded
from hub.jobs.recent import Recent
from hub.jobs.workers import unknown
from hub.randoms import random_hex
from hub.settings import Settings
from hub.store.store import Store

WANTED_MS = 3_600_000  # how long after a question its result may be uploaded, also when its client waits no more
RESULTS_MAX = 10_000  # most results that are kept of one room


class Providers:
    """The providers of a store, and their results until they expire."""

    def __init__(self, store: Store, settings: Settings, pages: Pages, recent: Recent) -> None:
        self._store = store
        self._pages = pages
        self._recent = recent
        self._realm = settings.realm
        self._categories = settings.allowed_provider_categories
        self._result_ttl_ms = int(settings.provider_result_ttl_s * 1000)
        self._room_bytes = settings.provider_room_max_bytes
        self._inflight_ttl_ms = int(settings.provider_inflight_ttl_s * 1000)
        self._register = store.script("providers/register")
        self._remove = store.script("providers/remove")
        self._describe = store.script("providers/describe")
        self._ask = store.script("providers/ask")
        self._join = store.script("providers/join")
        self._upload = store.script("providers/upload")

    async def register(self, wanted: ProviderRequest, user: str, superuser: bool) -> tuple[ProviderRecord, bool]:
        """Register a provider, or replace the one with the same full name. Return it and whether it is new. Raises
        `Forbidden`, `InvalidCategory`, `WorkerNotFound` and `QuotaExceeded`.
        """
        if wanted.room in SHARED and not superuser:
            raise Forbidden(f"Only a superuser registers providers in {wanted.room}")
        if self._categories is not None:
            check_category(wanted.category, self._categories, "HUB_ALLOWED_PROVIDER_CATEGORIES")
        full = full_name(wanted.room, wanted.category, wanted.name)
        register = partial(
            self._register, full=full, schema=wanted.schema, content_type=wanted.content_type,
            worker=wanted.worker or new_id(self._realm), user=user, superuser=int(superuser),
        )  # fmt: skip
        reply = await register(id=new_id(self._realm), made_for="known" if wanted.worker else "new", since=0)
        match reply:
            case [("created" | "replaced") as word, provider, at, worker, since]:
                again = partial(register, id=provider, made_for="told", since=int(since))
                self._recent.note(again, len(wanted.schema))
                made = ProviderRecord(provider, full, wanted.schema, wanted.content_type, worker, user, int(at))
                return made, word == "created"
            case ["worker"]:
                raise unknown(wanted.worker or "")
            case ["forbidden"]:
                raise Forbidden(f"Provider {full} belongs to another user")
            case ["quota", *refusal]:
                raise exceeded(refusal)
        raise UnknownReply(self._register.name, reply)

    async def get(self, room: str, full: str) -> ProviderRecord:
        """Return the provider with this full name; raises `ProviderNotFound` when the room sees none."""
        parts = parse_full_name(full)
        seen = parts is not None and (room == GLOBAL or parts[0] in (room, GLOBAL))
        found = await self._read([full]) if seen else []
        if not found:
            raise ProviderNotFound(f"There is no provider {full} in room {room}")
        return found[0]

    async def name(self, provider: str) -> str:
        """Return the full name of a provider, empty for an unknown id."""
        return await self._store.read("GET", self._store.keys.provider_name(provider)) or ""

    async def page(self, room: str, limit: int, offset: int) -> Page[ProviderRecord]:
        """Return a page of the providers of a room and of `@global`."""
        keys = [self._store.keys.room_providers(name) for name in dict.fromkeys((room, GLOBAL))]
        return await self._pages.read(keys, limit, offset, self._read)

    async def delete(self, provider: str, user: str, superuser: bool) -> None:
        """Delete a provider; raises `ProviderNotFound`, and `Forbidden` for the provider of another user, unless
        `superuser` is set.
        """
        request = random_hex(8)
        remove = partial(self._remove, id=provider, user=user, superuser=int(superuser), request=request)
        _check(self._remove.name, await remove(told=0), provider)
        self._recent.note(partial(remove, told=1))

    async def cached(self, provider: ProviderRecord, params: Mapping[str, str]) -> bytes | None:
        """Return the result that is kept for these parameters, None where there is none."""
        return await self._result(f"{provider.id}:{params_hash(params)}")

    async def read(self, provider: ProviderRecord, params: Mapping[str, str], wait_s: float, user: str = "") -> bytes:
        """Ask a provider for the result for these parameters, wait for it and return its bytes. A result that is kept
        is returned at once. Raises `ProviderTimeout` after `wait_s` seconds, and `QuotaExceeded`.
        """
        digest = params_hash(params)
        about = f"{provider.id}:{digest}"
        until = time.monotonic() + wait_s
        async with self._store.notifications.listen(self._store.keys.result_notice(about)) as subscription:
            while True:
                asked = await self._ask(
                    full=provider.full, id=provider.id, user=user, hash=digest, params=params_text(params),
                    ttl_ms=self._inflight_ttl_ms, want_ms=max(self._inflight_ttl_ms, WANTED_MS),
                )  # fmt: skip
                if asked == ["ready"] and (found := await self._result(about)) is not None:
                    return found
                if asked[0] == "quota":
                    raise exceeded(asked[1:])
                if not await subscription.wait_until(until):
                    raise ProviderTimeout(f"Provider {provider.full} did not answer within {wait_s:g} s")

    async def joined(self, full: str) -> None:
        """Send the open questions to a provider again: a client has joined its socket room that may be its worker, and
        may have missed them.
        """
        await self._join(full=full)

    async def upload(self, provider: str, digest: str, body: bytes, user: str, superuser: bool) -> None:
        """Keep a result and wake the calls that wait for it. `digest` is the hash of the parameters. Raises
        `ProviderNotFound`, `Forbidden`, `TooLarge` when the results of the room would have too many bytes, and for a
        superuser who does not own the provider `ResultNotAsked` when it was not asked for within an hour.
        """
        reply = await self._upload(
            id=provider, user=user, superuser=int(superuser), hash=digest, body=body, ttl_ms=self._result_ttl_ms,
            quota=self._room_bytes, most=RESULTS_MAX,
        )  # fmt: skip
        if reply == ["unasked"]:
            raise ResultNotAsked(
                "Nobody has asked for the result of this hash within an hour: only the provider's owner may upload"
            )
        if reply == ["quota"]:
            raise TooLarge(f"The results of a room may have {self._room_bytes} bytes in all.")
        _check(self._upload.name, reply, provider)

    async def _result(self, about: str) -> bytes | None:
        found = await self._store.read("GET", self._store.keys.result(about))
        return None if found is None else str(found).encode("utf-8", "surrogateescape")  # the bytes of the upload

    async def _read(self, names: list[str]) -> list[ProviderRecord]:
        return [_provider(reply) for reply in await self._describe(rest=names) if reply]


def _provider(reply: Any) -> ProviderRecord:
    full, provider, at, schema, content_type, worker, user = reply
    return ProviderRecord(provider, full, schema, content_type, worker, user, int(at))


def _check(script: str, reply: Any, provider: str) -> None:
    match reply:
        case ["ok"]:
            return
        case ["provider"]:
            raise ProviderNotFound(f"Provider {dashed(provider)} is not known")
        case ["forbidden"]:
            raise Forbidden(f"Provider {dashed(provider)} belongs to another user")
    raise UnknownReply(script, reply)
