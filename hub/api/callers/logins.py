"""The rights of a login to the console: a call with a login's cookie is served as a call with the credential that made
the login, within the role of the login. No other part of the hub knows of logins."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Never
from urllib.parse import unquote

from starlette.types import Scope

from hub.api.handling.context import Serving
from hub.api.operations import SAFE, Found, Row
from hub.api.paths import read_id
from hub.errors import Forbidden, Foreign, HubError, StoreUnavailable
from hub.observability import metrics
from hub.observability.logs import get_logger
from hub.store.rounds import rounds
from hub.tokens.logins import LOGINS_MAX, Login, Logins, bond, capped, digest
from hub.tokens.oidc.rules import Identity

OPEN_COOKIE: Final = "hub_login"  # over plain HTTP: browsers refuse a `__Host-` cookie there
TLS_COOKIE: Final = f"__Host-{OPEN_COOKIE}"
DEFAULT_PORTS: Final = {False: 80, True: 443}
LOGIN: Final = "hub.login"  # in the scope of a request: its `Login`, where a cookie has let it in
MARK: Final = b"x-hub-console"  # a foreign page can send this header only after a preflight, which the hub refuses
_REASON: Final = b"x-hub-reason"
_REASON_MAX: Final = 500
_CREDENTIALS: Final = (b"x-hub-secret", b"authorization")
_STILL_S: Final = 2.0
_log = get_logger("hub.api")


class NoReason(HubError):
    """The refusal of a change that a page of the console makes without a reason."""

    code = "no-reason"
    status = 422


@dataclass(frozen=True)
class Visit:
    """A call by a page of this hub: the key in its cookie, its login, and the reason that it gives for a change."""

    key: str = ""
    login: Login | None = None
    reason: str = ""


def cookie_name(scope: Scope, realm: str) -> str:
    """Return the name of the cookie on this connection: each hub of a host, and each realm, has a login of its own.

    Browsers keep cookies by host and not by port, so the name of the cookie has the port: the one in the `Host` header,
    which the browser uses, also behind a proxy.
    """
    secure = scope.get("scheme") == "https"
    port = _port(next((value for name, value in scope["headers"] if name == b"host"), b""))
    name = TLS_COOKIE if secure else OPEN_COOKIE
    name += f".{port}" if port and port != DEFAULT_PORTS[secure] else ""
    return f"{name}_{realm}" if realm else name


def _port(host: bytes) -> int:
    """Return the port in a `Host` header; 0 when there is none."""
    _, colon, text = host.rpartition(b"]")[2].rpartition(b":")
    return int(text) if colon and text.isdigit() and len(text) <= 5 else 0


class LoginGate:
    """The gate for calls with a login's cookie: it lets them in, bounds them by the role of the login, and notes their
    changes."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self._mode = serving.hub.settings.console
        self.logins = Logins(serving.hub.store)
        self._answers: dict[asyncio.Future[None], Visit] = {}  # each ends with its login
        self._looking: asyncio.Task[Never] | None = None
        self._tied: dict[tuple[str, str], bytes | None] = {}  # bond of a login and digest of its key -> the secret

    async def enter(self, scope: Scope, headers: Mapping[bytes, bytes], found: Found) -> Visit | None:
        """Return the visit of a page of this hub, None for any other call. When its login is valid, the call gets the
        credential of the login as a header from now on.

        Raises `Foreign`, `Forbidden` and `NoReason` for a call that this page or this role may not make, and
        `StoreUnavailable` when the login cannot be looked up.
        """
        if self._mode == "off":
            return None
        marked, row = MARK in headers, found.row
        shown = any(name in headers for name in _CREDENTIALS)
        if row is not None and row.facts.page and scope["method"] not in SAFE and not (marked or shown):
            raise Foreign("This takes calls of the console alone: send x-hub-console: 1.")
        reason = unquote(headers.get(_REASON, b"").decode("latin-1"))[:_REASON_MAX] if marked else ""
        key = _cookie(headers.get(b"cookie", b""), cookie_name(scope, self._serving.hub.settings.realm))
        if not key or shown:
            if marked and not shown and self._serving.hub.settings.open_access:
                _check_reason(scope, row, reason)
            return Visit(reason=reason) if marked else None
        login = await self.logins.find(key)
        credential = await self._credential(key, login) if login else None
        if login is not None and (user := self._user(login)) is not None and user.role:
            login = replace(login, role=capped(login.role, user.role))
        if login is None or credential is None:
            return Visit(reason=reason) if marked else None
        self._check(scope, found, capped(login.role, self.most), marked)
        _check_reason(scope, row, reason)
        dropped = (b"prefer",) if row is not None and row.facts.linked else (b"cookie", b"prefer")
        rest = [(name, value) for name, value in scope["headers"] if name not in dropped]
        scope["headers"] = [*rest, (b"x-hub-secret", credential)]
        scope[LOGIN] = login
        return Visit(key, login, reason)

    @property
    def most(self) -> str:
        """Return the highest role that a login may have at this hub."""
        return "viewer" if self._mode == "readonly" else "admin"

    async def note(self, visit: Visit, scope: Scope, row: Row | None) -> None:
        """Write into the audit log the change that a page has made, with its reason."""
        if scope["method"] in SAFE or _needs_no_reason(row):
            return
        by, role = (visit.login.name, visit.login.role) if visit.login else ("none: the hub is open", "admin")
        await self._serving.hub.audit.write(
            "console", "console.change", actor=f"{role} in the console", by=by,
            remote_ip=self._serving.proxies.caller(scope), method=scope["method"], path=read_id(scope["path"])[:300],
            **({"login": visit.login.id} if visit.login else {}), **({"reason": visit.reason} if visit.reason else {}),
        )  # fmt: skip

    async def while_good(self, visit: Visit, answering: Awaitable[None]) -> None:
        """Run `answering` to its end, but cancel it when its login is not valid any more. Streams, which have no end of
        their own, end in this way."""
        task = asyncio.ensure_future(answering)
        self._answers[task] = visit
        if self._looking is None or self._looking.done():
            looking = rounds(_STILL_S, self._look_after, self._not_looked_after)  # one timer for all these answers
            self._looking = asyncio.create_task(looking, name="logins")
        try:
            await asyncio.wait((task,))
            if not task.cancelled():
                task.result()
        finally:
            del self._answers[task]
            if not self._answers and self._looking is not None:
                self._looking.cancel()
                self._looking = None
            if not task.done():
                task.cancel()
                await asyncio.wait((task,))

    async def _look_after(self) -> None:
        """Cancel the answers whose login is not valid any more."""
        for task, visit in list(self._answers.items()):
            if not await self._is_still_good(visit):
                task.cancel()

    def _not_looked_after(self, error: Exception) -> None:
        metrics.unhandled.inc()
        _log.error("login check failed", why=str(error))

    async def _is_still_good(self, visit: Visit) -> bool:
        """Return whether the answer of this visit may go on. A login that cannot be looked up must not end the round of
        checks."""
        try:
            login = await self.logins.find(visit.key)
            return login is not None and await self._credential(visit.key, login) is not None
        except StoreUnavailable:  # go on: the page is told in another way that the store is away
            return True
        except Exception as error:  # noqa: BLE001 - end the answer: the page asks for a login
            self._not_looked_after(error)
            return False

    async def _credential(self, key: str, login: Login) -> bytes | None:
        """Return the credential that a login stands for, as the value of a header; None when the credential is not
        valid any more."""
        found = self._serving
        if login.claims:
            return found.oidc.handle(login.claims).encode() if found.oidc and self._user(login) else None
        if login.token:
            handle = found.holders.handle(login.token)
            holder = await found.holders.resolve(handle)
            return handle.encode() if holder and holder.active else None
        tied = login.bound, digest(key)
        if tied not in self._tied:
            if len(self._tied) >= LOGINS_MAX:
                self._tied.clear()
            bonds = ((member, bond(key, member)) for member in found.secrets.members)
            self._tied[tied] = next((each for each, made in bonds if hmac.compare_digest(made, login.bound)), None)
        return self._tied[tied]

    def _user(self, login: Login) -> Identity | None:
        """Return the issuer's user behind a login, by the rules as they are now; None for another login."""
        oidc = self._serving.oidc
        return oidc.of_login(login.claims) if oidc is not None and login.claims else None

    @staticmethod
    def _check(scope: Scope, found: Found, role: str, marked: bool) -> None:
        """Raise `Foreign` or `Forbidden` for a call that the page, or a login with this role, may not make."""
        least = found.row.least if found.row is not None and found.is_taken else None
        if scope["method"] in SAFE:
            if role == "viewer" and least == "operator":
                raise Forbidden("This login is a viewer's; this needs one of an operator.")
            if role != "admin" and least == "admin":
                raise Forbidden(f"This login is of the role {role}; this needs one of an admin.")
            return
        if not marked:
            raise Foreign("A cookie alone changes nothing: send x-hub-console: 1.")
        if _is_entry(found.row):
            return
        if role == "viewer":
            raise Forbidden("This login is a viewer's: it may look at everything, and change nothing.")
        if role != "admin" and least == "admin":
            raise Forbidden("This login is an operator's; this needs one of an admin.")


def _is_entry(row: Row | None) -> bool:
    return row is not None and row.facts.entry


def _needs_no_reason(row: Row | None) -> bool:
    return row is not None and (row.facts.entry or row.facts.routine)


def _check_reason(scope: Scope, row: Row | None, reason: str) -> None:
    """Raise `NoReason` for a change without a reason."""
    if scope["method"] not in SAFE and not _needs_no_reason(row) and not reason.strip():
        raise NoReason("A change that is made in the console needs a reason, for the audit log: send x-hub-reason.")


def _cookie(header: bytes, name: str) -> str:
    """Return the value of a cookie; empty when there is no such cookie or more than one."""
    pairs = (part.strip().partition("=") for part in header.decode("latin-1").split(";"))
    found = [value for key, _, value in pairs if key == name]
    return found[0] if len(found) == 1 else ""
