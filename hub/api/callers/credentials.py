"""The name of a caller's credential, for the audit log; and the delay for callers that guess secrets."""

from __future__ import annotations

from typing import Any

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Scope

from hub.api.callers.finding import Shown, is_open
from hub.api.handling.context import Serving, remote_ip, serving
from hub.errors import StoreUnavailable, Unauthorized
from hub.tokens.models import id_of
from hub.tokens.oidc.issuer import TokenOver

NONE = "none: the hub is open"


async def credential(request: Request) -> str:
    """Return the name of the credential that the caller was let in by: the name of a secret (never its value), or the
    id of a token and its holder's name."""
    try:
        return await _credential(request)
    except StoreUnavailable:  # the change was made already and must be noted
        return "unknown: the store did not answer"


async def _credential(request: Request) -> str:
    found = serving(request)
    if await is_open(found):
        return NONE
    shown = Shown.of(request.headers)
    if name := found.secrets.name(shown.secret):
        return name
    if found.oidc is not None and (user := await found.oidc.find(shown.token)) is not None:
        return user.title
    holder, digest = await found.holders.resolve(shown.token), found.holders.digest_of(shown.token)
    return f"token {id_of(digest)} of {holder.kind} {holder.name}" if holder and digest else NONE


async def origin(request: Request) -> dict[str, Any]:
    """Return the members of an audit event that name the caller: `by`, its credential, and `remote_ip`, its address."""
    return {"by": await credential(request), "remote_ip": remote_ip(request)}


async def slow_down_guesses(app: Any, scope: Scope, error: Exception) -> None:
    """Delay the answer to a request that was refused as `Unauthorized`, when its caller guessed a secret."""
    if (
        isinstance(error, Unauthorized)
        and not isinstance(error, TokenOver)
        and (found := getattr(app.state, "serving", None)) is not None
    ):
        await slow_down(found, scope)


async def slow_down(found: Serving, scope: Scope, token: str = "") -> None:
    """Delay the answer to a caller that has shown a credential which the hub does not know. `token` is a token that was
    not sent in a header. A caller that has shown none is not delayed."""
    if found.stopping:
        return
    shown = Shown.of(Headers(scope=scope))
    if not (shown.secret or token or shown.authorization):
        return
    try:
        if found.secrets.name(shown.secret) or await found.holders.resolve(token or shown.token):
            return  # a known credential that may not do this: no guess
    except StoreUnavailable:
        return  # the hub cannot look up the token now
    await found.wrong_secrets.slow(found.proxies.caller(scope), found.hub.settings.request_timeout_s / 2)
