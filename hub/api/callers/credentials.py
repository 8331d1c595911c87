"""What a caller has shown, by name: for the audit log, and to tell those who know a secret from those who guess."""

from __future__ import annotations

from typing import Any

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Scope

from hub.api.callers.users import bearer
from hub.api.handling.context import Serving, remote_ip, serving
from hub.errors import StoreUnavailable, Unauthorized
from hub.tokens.models import id_of
from hub.tokens.secrets import HEADER

NONE = "none: the hub is open"


async def credential(request: Request) -> str:
    """Return the name of what the caller was let in by: a secret's, or the id of a token and its holder. Never a
    secret."""
    try:
        return await _credential(request)
    except StoreUnavailable:  # what was done is done, whoever the caller was
        return "unknown: the store did not answer"


async def _credential(request: Request) -> str:
    found = serving(request)
    if found.secrets.open and await found.holders.none():
        return NONE
    secret = request.headers.get(HEADER, "")
    if name := found.secrets.name(secret):
        return name
    token = bearer(request.headers.getlist("authorization")) or secret
    holder, digest = await found.holders.resolve(token), found.holders.digest_of(token)
    return f"token {id_of(digest)} of {holder.kind} {holder.name}" if holder and digest else NONE


async def origin(request: Request) -> dict[str, Any]:
    """Return who did something and from where, as the audit log has it."""
    return {"by": await credential(request), "remote_ip": remote_ip(request)}


async def slow_down_guesses(app: Any, scope: Scope, error: Exception) -> None:
    """Let an answer that a secret is wrong wait, when it was guessed."""
    if isinstance(error, Unauthorized) and (found := getattr(app.state, "serving", None)) is not None:
        await slow_down(found, scope)


async def slow_down(found: Serving, scope: Scope, token: str = "") -> None:
    """Delay the answer to a stranger that guessed: it has shown something, and nothing is known by it."""
    if found.stopping:
        return
    headers = Headers(scope=scope)
    secret, token = headers.get(HEADER, ""), token or bearer(headers.getlist("authorization"))
    if not (secret or token or "authorization" in headers):
        return
    try:
        if found.secrets.name(secret) or await found.holders.resolve(token or secret):
            return  # he may not do this, but he did not guess
    except StoreUnavailable:
        return  # nobody can tell
    await found.wrong_secrets.slow(found.proxies.caller(scope), found.hub.settings.request_timeout_s / 2)
