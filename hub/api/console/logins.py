"""Logins to the console: made with a secret, a token or a link, listed and ended."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from hub import __version__
from hub.api.callers.caller import STRANGER
from hub.api.callers.finding import Shown, known_user
from hub.api.callers.logins import LOGIN, LoginGate, cookie_name
from hub.api.console.pages import console_hub
from hub.api.handling.context import in_ms, remote_ip
from hub.api.inputs import Audit, Document, DocumentOrNone, Hub, Serving, hub_of
from hub.api.operations import unlisted
from hub.api.realms.others import ServedRealms
from hub.api.shapes import reading as bodies
from hub.api.shapes.answer import Answer
from hub.errors import Forbidden, InvalidValue, MissingMember, NotFound, Unauthorized
from hub.settings.realms import DEFAULT
from hub.tokens.logins import LIFE_S, LINK_S, ROLES, Login, bond, capped, new_key
from hub.tokens.models import USER, digest_of
from hub.tokens.secrets import ADMIN, RUNNER
from hub.wire import time_at

router = APIRouter()
_AGENT_MAX: Final = 200


def _gate(request: Request) -> LoginGate:
    """Return the gate of logins; raises `NotFound` when the hub has no console."""
    console_hub(request)
    gate: LoginGate = request.app.state.logins
    return gate


def _own(request: Request) -> Login | None:
    """Return the login of the caller, None for a call without one."""
    login: Login | None = request.scope.get(LOGIN)
    return login


Gate = Annotated[LoginGate, Depends(_gate)]
OwnLogin = Annotated[Login | None, Depends(_own)]


@router.get("/console/me", **unlisted(page=True))
async def me(request: Request, found: Serving, gate: Gate, login: OwnLogin) -> Response:
    """Return the caller's login, and what the page may offer; the hub checks each call itself."""
    realms: ServedRealms | None = request.app.state.realms
    shown = Shown.of(request.headers)
    caller = await known_user(found, shown)
    known = caller is not STRANGER
    looks, operates = found.secrets.accepts(shown.secret, RUNNER, ADMIN), found.secrets.accepts(shown.secret, ADMIN)
    role = capped(login.role if login else "admin", gate.most)
    acts = role != "viewer"
    return Answer(
        {
            "mode": found.hub.settings.console,
            "realm": found.hub.settings.realm or DEFAULT,
            "realms": [name or DEFAULT for name in realms.parts] if realms else [],
            "open": found.secrets.open,
            "oidc": found.oidc is not None and bool(found.hub.settings.public_url),
            "login": _shown(login) if login else None,
            "role": role,
            "user": caller.name if login and login.token else None,
            "may": {
                "look": looks,
                "audit": operates,
                "operate": operates and acts,
                "lease": looks and acts,
                "borrow": acts and (looks or (known and (not caller.scopes or "borrow" in caller.scopes))),
                "jobs": known or found.hub.settings.anonymous_reads,
                "moveTasks": known and acts,
                "dead": caller.superuser,
                "tokens": caller.superuser and role == "admin",
            },
            "version": __version__,
            "secure": request.url.scheme == "https",
            "now": in_ms(found.hub, 0),
        }
    )


@router.post("/console/session", **unlisted(page=True, entry=True))
async def log_in(request: Request, found: Serving, gate: Gate, document: Document) -> Response:
    """Make a login for `secret` (a shared secret or a user's token) or the `link` of `hub ui`; its key is set as a
    cookie."""
    key, link = new_key(), bodies.text(document, "link")
    if link is not None:
        login = await gate.logins.open_link(link)
        secret = next((each for each in found.secrets.members if login and bond(link, each) == login.bound), b"")
        if login is None or not (login.token or secret):
            await found.wrong_secrets.slow(remote_ip(request), found.hub.settings.request_timeout_s / 2)
            raise NotFound("This link has been opened already, or is older than five minutes; `hub ui` makes another.")
        wanted = _wanted(request, login.name, login.role, login.token, bond(key, secret) if secret else "")
    else:
        wanted = await _bought(request, found, document, key)
    made = await gate.logins.create(key, wanted)
    await found.hub.audit.write(
        "console", "console.login", actor=f"{made.role} in the console", by=made.name, remote_ip=made.ip, login=made.id,
        bought="with a link" if link is not None else "with a secret or a token",
    )  # fmt: skip
    answer = Answer({"login": _shown(made)}, status=201)
    set_login_cookie(answer, request, key, int(LIFE_S))
    return answer


@router.delete("/console/session", **unlisted(page=True, entry=True))
async def log_out(request: Request, login: OwnLogin) -> Response:
    """End the login of the caller."""
    if login:
        await _gate(request).logins.end(login.id)
    answer = Answer({"ended": bool(login)})
    set_login_cookie(answer, request, "", 0)
    return answer


@router.get("/console/logins", **unlisted(page=True, who=(ADMIN,)))
async def logins(hub: Hub, gate: Gate, mine: OwnLogin) -> Response:
    """Return all valid logins."""
    shown = [{**_shown(each), "own": bool(mine and mine.id == each.id)} for each in await gate.logins.good()]
    return Answer({"logins": shown, "now": in_ms(hub, 0)})


@router.delete("/console/logins/{name}", **unlisted(page=True, least="admin", who=(ADMIN,)))
async def end(gate: Gate, name: str, audit: Audit) -> Response:
    """End a login: within a second no hub accepts it."""
    if not await gate.logins.end(name):
        raise NotFound(f"There is no login {name[:40]}.")
    await audit.write("console", "console.logout", login=name)
    return Answer({"ended": name})


@router.post("/console/links", **unlisted(page=True, least="admin"))
async def make_link(request: Request, found: Serving, gate: Gate, document: DocumentOrNone, audit: Audit) -> Response:
    """Make a link for one login within five minutes, with the credential of this call and a `role`."""
    secret = Shown.of(request.headers).token
    if found.secrets.open and not secret:
        return Answer({"link": None, "role": gate.most, "open": True})
    if not secret:
        raise Unauthorized()
    link = new_key()
    wanted = await _bought(request, found, {**document, "secret": secret}, link)
    await gate.logins.make_link(wanted, link)
    await audit.write("console", "console.link", role=wanted.role)
    return Answer({"link": link, "role": wanted.role, "open": False, "seconds": LINK_S}, status=201)


async def _bought(request: Request, found: Serving, document: dict[str, Any], key: str) -> Login:
    """Return the login for the `secret` in a body; raises `Unauthorized` for an unknown one."""
    secret = bodies.text(document, "secret")
    if not secret:
        raise MissingMember("missing secret: a shared secret, or the token of a user", member="secret")
    secret = secret.strip()
    wanted = bodies.text(document, "role") or "admin"
    if wanted not in ROLES:
        raise InvalidValue(f"role must be one of {', '.join(ROLES)}", member="role")
    if name := "" if found.secrets.open else found.secrets.name(secret):
        role = _role(found, secret)
        return _wanted(request, name, capped(wanted, role), bound=bond(key, secret.encode()))
    holder = await found.holders.resolve(secret)
    if holder is None or not holder.active or holder.kind != USER:
        await found.wrong_secrets.slow(remote_ip(request), found.hub.settings.request_timeout_s / 2)
        raise Unauthorized()
    acts = not holder.scopes or holder.scopes & {"submit", "worker", "admin", "borrow"}
    role = "admin" if holder.superuser else "operator" if acts else "viewer"
    digest = found.holders.digest_of(secret) or digest_of(secret) or ""
    return _wanted(request, f"token of {holder.name}", capped(wanted, role), token=digest)


def _role(found: Serving, secret: str) -> str:
    for role, needed in (("admin", ADMIN), ("operator", RUNNER)):
        if found.secrets.accepts(secret, needed):
            return role
    raise Forbidden("The secret of the nodes is for nodes: log in with another secret, or with a token.")


def _wanted(request: Request, name: str, role: str, token: str = "", bound: str = "") -> Login:
    agent = request.headers.get("user-agent", "")[:_AGENT_MAX]
    return Login(name, role, bound, token, remote_ip(request) or "", agent)


def _shown(login: Login) -> dict[str, Any]:
    return {
        "id": login.id, "name": login.name, "role": login.role, "remoteIp": login.ip, "agent": login.agent,
        "since": time_at(login.at_s), "until": time_at(login.until_s), "seenAt": time_at(login.seen_s),
    }  # fmt: skip


def set_login_cookie(answer: Response, request: Request, key: str, seconds: int) -> None:
    """Set the cookie with the key of a login, which no script can read."""
    name = cookie_name(request.scope, hub_of(request).settings.realm)
    secure = request.url.scheme == "https"
    answer.set_cookie(name, key, max_age=seconds, path="/", httponly=True, samesite="strict", secure=secure)
    answer.headers["cache-control"] = "no-store"
