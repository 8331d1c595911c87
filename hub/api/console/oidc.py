"""Logins to the console by the issuer: the authorization code flow with PKCE. And what `hub login` must know."""

from __future__ import annotations

import html
import re
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from hub.api.callers.logins import cookie_name
from hub.api.console.logins import Gate as LoginsGate
from hub.api.console.logins import set_login_cookie
from hub.api.console.pages import HEADERS
from hub.api.handling.context import remote_ip
from hub.api.inputs import Serving
from hub.api.operations import unlisted
from hub.api.paths import REALMS
from hub.api.shapes.answer import Answer
from hub.errors import BadInput, Forbidden, HubError, NotFound
from hub.settings import Settings
from hub.tokens.logins import Login, new_key

if TYPE_CHECKING:
    from hub.tokens.oidc.users import OidcUsers  # needs the extra

router = APIRouter()
BEGUN_S: Final = 600  # a login that was begun can be finished for this long
AGENT_MAX: Final = 200
_PAGE: Final = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Log in · capacity-hub</title>
<p>{}</p><p><a href="../../">Back to the console</a></p></html>
"""


def _users(found: Serving) -> OidcUsers:
    if found.oidc is None:
        raise NotFound("This hub knows no issuer: HUB_OIDC_ISSUER is not set.")
    return found.oidc


@router.get("/oidc", **unlisted())
async def issuer(found: Serving) -> Response:
    """Return what a client must know to get a token for this hub: the issuer, the client, the audience, the scopes."""
    _users(found)
    settings = found.hub.settings
    return Answer(
        {
            "issuer": settings.oidc_issuer,
            "clientId": settings.oidc_device_client_id or settings.oidc_client_id,
            "audience": settings.oidc_audience or None,
            "scopes": settings.oidc_scopes.split(),
        }
    )


@router.get("/console/oidc/login", **unlisted(page=True, linked=True))
async def begin(request: Request, found: Serving, _: LoginsGate) -> Response:
    """Redirect to the issuer. The browser keeps the state of the login in a cookie, so that any hub may finish it. The
    cookie has nothing in it that its owner may not know."""
    try:
        settings, state, nonce, verifier = found.hub.settings, *(secrets.token_urlsafe(32) for _ in range(3))
        challenge = urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        asked = {
            "response_type": "code", "client_id": settings.oidc_client_id, "redirect_uri": _redirect_uri(settings),
            "scope": " ".join(each for each in settings.oidc_scopes.split() if each != "offline_access"),
            "state": state, "nonce": nonce, "code_challenge": challenge, "code_challenge_method": "S256",
            **({"audience": settings.oidc_audience} if settings.oidc_audience else {}),
        }  # fmt: skip
        url = await _users(found).issuer.endpoint("authorization_endpoint")
    except HubError as error:
        return _page(error)
    answer = RedirectResponse(f"{url}{'&' if '?' in url else '?'}{urlencode(asked)}", 303)
    _keep(answer, request, settings, f"{state}.{nonce}.{verifier}", BEGUN_S)
    return answer


@router.get("/console/oidc/callback", **unlisted(page=True, linked=True))
async def finish(request: Request, found: Serving, gate: LoginsGate) -> Response:
    """Make the login for the code that the issuer gave to the browser, and redirect to the console; a login that fails
    is one sentence on a page."""
    try:
        login, key = await _bought(request, found)
        made = await gate.logins.create(key, login)
    except HubError as error:
        answer = _page(error)
    else:
        await found.hub.audit.write(
            "console", "console.login", actor=f"{made.role} in the console", by=made.name, remote_ip=made.ip,
            login=made.id, bought="from the issuer",
        )  # fmt: skip
        answer = RedirectResponse("../../", 303)
        set_login_cookie(answer, request, key, int(made.life_s))
    _keep(answer, request, found.hub.settings, "", 0)
    return answer


async def _bought(request: Request, found: Serving) -> tuple[Login, str]:
    """Return the login for the code in the query, and its key; raises a `HubError` for a code that gives none."""
    users, settings, query = _users(found), found.hub.settings, request.query_params
    state, _, rest = request.cookies.get(_cookie(request, settings), "").partition(".")
    nonce, _, verifier = rest.partition(".")
    is_ours = secrets.compare_digest(query.get("state", "").encode(), state.encode())
    if not (verifier and is_ours and query.get("iss", users.issuer.url) == users.issuer.url):
        raise BadInput("This login was not begun in this browser, was finished already, or took over ten minutes.")
    if "error" in query:
        raise Forbidden(f"The issuer refused the login ({_word(query)}).")
    form = {
        "grant_type": "authorization_code", "code": query.get("code", ""), "redirect_uri": _redirect_uri(settings),
        "client_id": settings.oidc_client_id, "code_verifier": verifier,
    }  # fmt: skip
    secret = settings.oidc_client_secret.get_secret_value() if settings.oidc_client_secret else ""
    status, tokens = await users.issuer.post("token_endpoint", form, secret)
    if status != 200:
        raise Forbidden(f"The issuer does not take the code of this login ({_word(tokens)}): begin again.")
    claims, user = await users.login(str(tokens.get("id_token")), settings.oidc_client_id, nonce)
    if not user.role:
        raise Forbidden(f"The rules of this hub give {user.holder.name} no role in the console.")
    agent = request.headers.get("user-agent", "")[:AGENT_MAX]
    login = Login(
        user.title, user.role, ip=remote_ip(request) or "", agent=agent, claims=claims, life_s=settings.oidc_login_s
    )
    return login, new_key()


def _word(said: Mapping[str, Any]) -> str:
    """Return the issuer's word for an error; any other text may be a stranger's, and is not shown."""
    word = str(said.get("error"))
    return word if re.fullmatch(r"[a-z_]{1,40}", word) else "without a word why"


def _redirect_uri(settings: Settings) -> str:
    """Return the address that the issuer sends the browser back to: it alone is registered there."""
    if not settings.public_url:
        raise NotFound("Nobody can log in to the console by the issuer here: HUB_PUBLIC_URL is not set.")
    realm = f"{REALMS}{settings.realm}" if settings.realm else ""
    return f"{settings.public_url.rstrip('/')}{realm}/console/oidc/callback"


def _cookie(request: Request, settings: Settings) -> str:
    return cookie_name(request.scope, settings.realm).replace("hub_login", "hub_oidc")


def _keep(answer: Response, request: Request, settings: Settings, text: str, seconds: int) -> None:
    """Set the cookie of a login that was begun. Its way back is from another site, so it cannot be a strict one."""
    secure = request.url.scheme == "https"
    name = _cookie(request, settings)
    answer.set_cookie(name, text, max_age=seconds, path="/", httponly=True, samesite="lax", secure=secure)
    answer.headers["cache-control"] = "no-store"


def _page(error: HubError) -> Response:
    sentence = html.escape(error.detail or "The login failed.")
    return Response(_PAGE.format(sentence), error.status, HEADERS, "text/html; charset=utf-8")
