"""The outermost application of a hub with realms: it finds the realm of a call and hands the call to the part of this
realm."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from starlette.datastructures import Headers, State
from starlette.types import Message, Receive, Scope, Send

from hub.api.dispatch.part import Part
from hub.api.handling.bounds import Bounds
from hub.api.handling.context import Serving
from hub.api.handling.kept_body import KeptBody
from hub.api.handling.large_bodies import LargeBodies
from hub.api.handling.problems import as_hub_error, note_failure, refuse
from hub.api.operations import EVERYTHING, Found, Table
from hub.api.paths import SOCKETS, keep_escaped
from hub.api.pipeline import RequestPipeline
from hub.api.realms.search import where_held, where_lent, where_waiting
from hub.api.realms.subjects import About, UnknownRealm, about, name_in, needs_body
from hub.errors import BadInput, HubError, StartRefused, StoreUnavailable, TooLarge, Unauthorized
from hub.observability import realms as of_realms
from hub.observability.logs import get_logger
from hub.observability.tracing import tracing
from hub.settings import Settings
from hub.settings.realms import DEFAULT, Realm, Rules, tag_in, tag_of
from hub.settings.served import read_known, serves, settings_of
from hub.teams.file import TeamsFile
from hub.tokens.file import TokensFile
from hub.tokens.secrets import ADMIN, NODE, RUNNER, Secrets

_TICKET_PREFIX: Final = "try-"  # of the id of a ticket that a hub has made: the name of its realm follows
_log = get_logger("hub.realms")
Make = Callable[[Settings, TokensFile, "Realms"], RequestPipeline]


class Realms:
    """The parts of the realms that this hub serves, by name. `make` makes the application of one realm; all realms
    share one `table` of operations."""

    def __init__(
        self,
        settings: Settings,
        table: Table,
        make: Make,
        *,
        when_started: Callable[[Realms], None] | None = None,
        on_sighup: Callable[[], None] | None = None,
    ) -> None:
        self.settings = settings
        self.parts: dict[str, Part] = {}
        self.stopping = False
        self.known_hosts: set[bytes] = set()  # values of `Host` that the gate of some part has let in
        self._make = make
        self._when_started, self._on_sighup = when_started, on_sighup
        self._tokens, self.teams_file = TokensFile(settings.tokens_file), TeamsFile(settings.teams_file)
        self._closing: set[asyncio.Task[None]] = set()
        self._table, self._bounds = table, Bounds(settings)
        self._large_bodies, self._secrets = LargeBodies(settings), Secrets(settings)
        self._use_file()

    def _use_file(self) -> None:
        """Read the realms file and use its realms and rules from now on. Raises `StartRefused`, and changes nothing,
        when the file cannot be used."""
        found = read_known(self.settings)
        self.known = {realm.name: realm for realm in found if realm.name != DEFAULT}
        self.default = next((realm for realm in found if realm.name == DEFAULT), Realm(DEFAULT, ""))
        self.rules = Rules(found)
        self._tags = {tag_of(name): name for name in self.known}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        keep_escaped(scope)
        try:
            name = name_in(scope)
            if name is None and scope["type"] == "http":
                await self._find_and_serve(scope, receive, send)
            else:
                await self._part_of(self._default_name(scope, None) if name is None else name)(scope, receive, send)
        except HubError as refusal:
            await refuse(refusal, scope, receive, send)
        except Exception as error:  # noqa: BLE001 - as in a part: every failure is answered
            failure = as_hub_error(error)
            note_failure(failure, error, scope)
            await refuse(failure, scope, receive, send)

    async def _find_and_serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Find the realm of a call that names none, and hand the call to the part of the hub that serves that realm.
        The body is read first where the subject of the call is in the body."""
        found = self._found(scope)
        if not needs_body(found):
            await self._part_of(await self._find(found, scope, None))(scope, receive, send)
            return
        kept, body = KeptBody(scope, receive, self._large_bodies), None
        try:
            with suppress(TooLarge):  # the realm's application refuses it
                body = await kept.whole(self._bounds.of(found, scope["path"]), self.settings.request_timeout_s)
            await self._part_of(await self._find(found, scope, body))(scope, kept.receive, send)
        finally:
            kept.unload()

    def _found(self, scope: Scope) -> Found:
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        return self._table.look_up(method, scope["path"]).found

    def declared(self, name: str) -> Realm | None:
        """Return the realm of this name as the file declares it; None when the file does not have it any more."""
        return self.known.get(name) if name else self.default

    def _part_of(self, name: str) -> Part:
        if (found := self.parts.get(name)) is None:
            raise self._unknown(name)
        return found

    async def _find(self, found: Found, scope: Scope, body: bytes | None) -> str:
        return await self._decide(about(found, scope, body), scope) or self._default_name(scope, found)

    async def _decide(self, subject: About, scope: Scope) -> str:
        if subject.realm is not None:
            return "" if subject.realm == DEFAULT else subject.realm
        names = {self.rules.find(kind, text) or "" for kind, text in subject.rules}
        if len(names) > 1:
            raise BadInput("The beats of this call are of several realms; send those of each in a call of its own.")
        if name := next(iter(names), "") or self._of_tag(*subject.ids):
            return name
        name, dot, _ = subject.ticket.removeprefix(_TICKET_PREFIX).partition(".")
        if dot and subject.ticket.startswith(_TICKET_PREFIX):
            return name
        if not self._shows_a_secret(scope):
            return ""
        if subject.slot:
            return await where_lent([*self.parts.values()], subject.slot, subject.lease_token) or ""
        if subject.ticket:
            return await where_waiting([*self.parts.values()], subject.ticket) or ""
        if subject.bundle:
            return await where_held([*self.parts.values()], subject.bundle) or ""
        return ""

    def _of_tag(self, *ids: str) -> str:
        return next((found for each in ids if (found := self._tags.get(tag_in(each)))), "")

    def of_room(self, room: str, ident: str) -> Part:
        """Return the part of the realm that the rules give a room, else of the realm whose tag is in this id; raises
        `UnknownRealm` when this hub does not serve it."""
        return self._part_of(self.rules.find("rooms", room) or self._of_tag(ident))

    def _shows_a_secret(self, scope: Scope) -> bool:
        """Return whether the caller shows a secret of this hub. For a stranger no store is searched, and a stranger is
        not told where a slot is lent."""
        try:
            self._secrets.check(Headers(scope=scope), RUNNER, NODE, ADMIN)
        except Unauthorized:
            return False
        return True

    def _default_name(self, scope: Scope, found: Found | None) -> str:
        """Return the name of the realm for a call that no rule and no id assigns to a realm: the default realm. A hub
        that does not serve the default realm takes the first realm that is open, but only for calls about the whole hub
        and for sockets."""
        subject = found.row.about if found is not None and found.row is not None and found.is_taken else None
        if "" in self.parts or not (subject is EVERYTHING or _is_socket(scope)):
            return ""
        return next((name for name, part in self.parts.items() if part.serving), next(iter(self.parts), ""))

    def _unknown(self, name: str) -> HubError:
        there = ", ".join(each or DEFAULT for each in self.parts) or "none"
        if not name:
            return UnknownRealm(f"This call names no realm, and no rule fits it; this hub serves {there}.")
        return UnknownRealm(f"This hub serves no realm {name[:40]!r}; it serves {there}.")

    def for_beat(self, scope: Scope, body: bytes) -> Part | None:
        """Return the part that a heartbeat is for; None when this hub serves no such realm."""
        name = name_in(scope)
        if name is None and self.rules.has("nodes"):
            rules = about(self._found(scope), scope, body).rules
            name = next((found for kind, text in rules if (found := self.rules.find(kind, text))), "")
        return self.parts.get(name or "")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve all realms within this block. Raises the error that keeps the default realm from being opened; the
        other realms may open later."""
        with of_realms.split():
            async with self._open():
                yield

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[None]:
        tracing.begin()
        try:
            if serves(self.settings, DEFAULT):
                self.parts[""] = default = self._part("", self.settings)
                await default.open()
            for realm in self.known.values():
                self._begin(realm)
            _log.info(
                "realms served", served=",".join(name or DEFAULT for name in self.parts), rules=self.rules.version
            )
            if self._when_started:
                self._when_started(self)
            with self._tokens.read_again_on_sighup(self._read_again):
                yield
        finally:
            self.stop()
            await asyncio.gather(*self._closing, *(part.close() for part in self.parts.values()))
            await asyncio.to_thread(tracing.end)

    async def look(self) -> None:
        """Ask the stores of all realms, in parallel, whether they answer."""
        seconds = self.settings.redis_health_timeout_ms / 1000
        await asyncio.gather(*(part.look(seconds) for part in self.parts.values()))

    async def each(self, act: Callable[[State], Awaitable[None]]) -> None:
        """Call `act` with the application's state of every realm, in parallel. Each call has a time limit, so that a
        store that stands still does not hold up the others for long."""
        seconds = self.settings.redis_health_timeout_ms / 1000
        await asyncio.gather(*(part.act(act, seconds) for part in self.parts.values()))

    def _begin(self, realm: Realm) -> None:
        if serves(self.settings, realm.name):
            part = self._part(realm.name, settings_of(realm, self.settings))
            self.parts[realm.name] = part
            part.open_later()

    def _part(self, name: str, settings: Settings) -> Part:
        return Part(name, settings, lambda settings: self._make(settings, self._tokens, self))

    def _read_again(self) -> None:
        """Read the files again, on SIGHUP: open new realms, close removed ones and those whose store's address has
        changed, and decide by the new rules."""
        if self._on_sighup:
            self._on_sighup()
        self.teams_file.read_again()
        try:
            before = self.known
            self._use_file()
        except StartRefused as error:
            _log.error("realms file rejected", why=str(error), realms_kept=len(self.known))
            return
        for name in before:
            now, part = self.known.get(name), self.parts.get(name)
            if part is not None and (now is None or now.url not in (before[name].url, part.settings.redis_url)):
                del self.parts[name]
                self._close(part)
        for realm in self.known.values():
            if realm.name not in self.parts:
                self._begin(realm)
        _log.info(
            "realms file loaded", served=",".join(name or DEFAULT for name in self.parts), rules=self.rules.version
        )

    def _close(self, part: Part) -> None:
        async def close() -> None:
            await part.close()
            if part.name not in self.parts:
                of_realms.forget(part.name)

        closing = asyncio.ensure_future(close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    @property
    def any_serving(self) -> Serving | None:
        """Return the `Serving` of any open realm, None when no realm is open. All realms know the same secrets and the
        same tokens file."""
        return next((found for part in self.parts.values() if (found := part.serving)), None)

    def stop(self) -> None:
        """Refuse new borrows in every realm, and answer the calls that wait in the queue."""
        self.stopping = True
        for part in self.parts.values():
            part.stop()

    def hang_up(self) -> None:
        """Stop every realm, and take no more Socket.IO connections in any of them."""
        for part in self.parts.values():
            part.hang_up()

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        started = False
        try:
            async with self.running():
                started = True
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except (StartRefused, StoreUnavailable) as error:
            if started:
                raise
            await send(_failed(str(error)))
            return
        await send({"type": "lifespan.shutdown.complete"})


def _is_socket(scope: Scope) -> bool:
    """Return whether a call is for the sockets. Such a call need not name a realm: each room that the client joins
    decides its own."""
    return bool(scope["path"].startswith(SOCKETS))


def _failed(why: str) -> Message:
    return {"type": "lifespan.startup.failed", "message": f"The hub does not start. {why}"}
