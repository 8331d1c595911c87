"""`hub token`: shows, makes and revokes tokens of users and nodes. A secret is made here; the hub gets its digest."""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable
from typing import TypeVar

import typer
from pydantic import SecretStr
from typer import Option

from hub.cli import output
from hub.cli.answers import CommandAnswer, Listing, time_of
from hub.cli.command import Group, Work
from hub.cli.connection import HubApi, Row, secret_source
from hub.cli.direct import store_settings, store_shown, within_process
from hub.cli.global_options import realm
from hub.cli.inputs import Usage, check_one_of, given, reader, shown
from hub.cli.options import TOKEN_ID, Input
from hub.errors import Forbidden, HubUnavailable, Unauthorized
from hub.settings.realms import DEFAULT
from hub.tokens.models import (
    SCOPES,
    digest_of,
    new_secret,
    read_labels,
    read_name,
    read_node,
    read_rooms,
    read_team,
    read_user,
)

_DAYS = {"h": 1 / 24, "d": 1.0, "w": 7.0}
_ALL = 1_000_000  # tokens, which are more than a hub has
_NONE_LEFT = "no token is left: where no secret is set either, everybody on that machine may use the jobs API."
_FIRST = (
    "it is the first token of a hub without secrets. From now on jobs need a token as HUB_TOKEN, and hooks and tokens "
    "that of a superuser; or set secrets, HUB_ADMIN_SECRET among them, for the hub and for commands."
)
T = TypeVar("T")
_ID = TOKEN_ID.argument("The id of the token, as `hub token ls` shows it.")

app = Group(help="Make, list and revoke the tokens of users and of nodes.")


def _read_scope(text: str) -> str:
    if text not in SCOPES:
        raise typer.BadParameter(f"{shown(text)} is none of {', '.join(SCOPES)}.")
    return text


def _read_days(text: str) -> float:
    number, unit = text[:-1], text[-1:]
    if unit not in _DAYS or not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,3})?", number) or not float(number):
        raise typer.BadParameter(f"{shown(text)} is no time such as 90d, 12h or 4w.")
    return float(number) * _DAYS[unit]


_NAME = Input("NAME", reader(read_name))


@app.add("create", "superuser")
def create(
    hub: HubApi,
    user: str | None = _NAME.option("The name of the user."),
    node: str | None = Input("NODE", reader(read_node)).option("Make a token of this node instead."),
    join: str | None = _NAME.option("Make a join token of this name instead: nodes exchange it for their own."),
    user_id: str | None = Input("UUID", reader(read_user)).option("The id of the user. Default: made from the name."),
    superuser: bool = Option(False, "--superuser", help="Give the user the rights of a superuser."),
    scope: list[str] | None = Input("|".join(SCOPES), _read_scope).option(
        "Allow only this scope. Repeatable. Default: all."
    ),
    room: list[str] | None = Input("ROOM").option("Allow only this room, and reading @global. Repeatable."),
    label: list[str] | None = Input("PATTERN").option("Borrow only such labels, as 'gpu:*'. Repeatable. Default: all."),
    team: str | None = Input("TEAM", reader(read_team)).option("The team for which the user borrows."),
    max_priority: int | None = Option(None, min=-100, max=100, help="The highest priority to borrow with."),
    expires: float | None = Input("DAYS", _read_days).option("Refuse the token after this time, as 90d or 12h."),
) -> Work:
    """Make a token of a user or a node, or a join token, and print it. It is not shown again.

    On a hub without secrets the first token closes the jobs API to callers without one.
    """
    check_one_of(("--user", user), ("--node", node), ("--join", join))
    body = given({"user": user, "node": node, "join": join})
    if not body:
        raise Usage("Missing option '--user': say one of --user, --node and --join.")
    if node or join:
        if user_id or superuser or scope or room or label or team or max_priority is not None:
            names = "--user-id, --superuser, --scope, --room, --label, --team and --max-priority"
            raise Usage(f"{names} are for tokens of users.")
    else:
        body["superuser"] = superuser
    if room:
        body["rooms"] = _rooms(room)
    if label:
        body["labels"] = _patterns(label)
    body |= given({"userId": user_id, "team": team, "maxPriority": max_priority, "expiresInDays": expires})
    if scope:
        body["scopes"] = list(dict.fromkeys(scope))
    return _create(hub, body)


def _rooms(names: list[str]) -> list[str]:
    try:
        return sorted(read_rooms(names))
    except ValueError as error:
        raise Usage(f"--room {error}.") from None


def _patterns(patterns: list[str]) -> list[str]:
    try:
        return list(read_labels(patterns))
    except ValueError as error:
        raise Usage(f"--label {error}.") from None


@app.add("ls", "superuser")
async def list_tokens(hub: HubApi) -> CommandAnswer:
    """Show the tokens, newest first, and those of HUB_TOKENS_FILE, without their secrets."""
    page = await _ask(hub, lambda hub: _TOKENS.whole(hub, _ALL, "admin", "tokens"))
    tokens = [*page["tokens"], *page["inFile"]]
    return CommandAnswer(page, lambda: _TOKENS.put(tokens) if tokens else output.put("There are no tokens."))


@app.add("show", "superuser")
async def show(hub: HubApi, token: str = _ID) -> CommandAnswer:
    """Show a token without its secret."""
    return _TOKENS.one(await _ask(hub, lambda hub: hub.get("admin", "tokens", token)))


@app.add("revoke", "superuser")
async def revoke(hub: HubApi, token: str = _ID) -> CommandAnswer:
    """Revoke a token: within a second no hub accepts it any more."""
    answer = await _ask(hub, lambda hub: hub.ask("DELETE", "admin", "tokens", token))
    return CommandAnswer(answer, f"{token} is revoked.", [_NONE_LEFT] if answer.get("last") else [])


async def _create(hub: HubApi, body: Row) -> CommandAnswer:
    made = new_secret("" if realm() in (None, DEFAULT) else str(realm()))
    body["sha256"] = digest_of(made)  # a repeat of the call makes no second token

    async def ask(asked: HubApi) -> tuple[Row, bool]:
        # A hub takes this call without a secret only while it has neither secrets nor tokens.
        return await asked.ask("POST", "admin", "tokens", body=body), asked is hub and not hub.at.secret

    answer, first = await _ask(hub, ask)

    def show() -> None:
        output.put(made)
        of = {"node": "node ", "join": "nodes that join: "}.get(str(answer.get("kind")), "")
        output.note(f"this is token {answer.get('id')} of {of}{answer.get('user')}; it is not shown again.")

    return CommandAnswer({**answer, "token": made}, show, [_FIRST] if first else [])


def _rights(token: Row) -> str:
    """Return the scopes and rooms of a token of a user; for a token of another kind, the kind."""
    if (kind := token.get("kind", "user")) != "user":
        return str(kind)
    limits = [*(f"in {room}" for room in token.get("rooms") or ()), *(token.get("labels") or ())]
    if (most := token.get("maxPriority")) is not None:
        limits.append(f"priority <= {most}")
    return " ".join((*(token.get("scopes") or ("all",)), *limits))


async def _ask(hub: HubApi, ask: Callable[[HubApi], Awaitable[T]]) -> T:
    """Ask the hub. When it refuses this caller, who has no secret but maybe a token, ask a hub inside this process,
    straight on Redis."""
    try:
        return await ask(hub)
    except (Forbidden, Unauthorized) as error:
        if hub.at.chosen or (hub.at.secret and secret_source() != "HUB_TOKEN"):
            raise
        try:
            settings = store_settings("The hub asks for a secret")
        except HubUnavailable:
            raise error from None
    output.note(f"the hub asks for a secret; working straight on Redis at {store_shown(settings)}.")
    secret = secrets.token_hex(16)
    async with within_process(settings.model_copy(update={"admin_secret": SecretStr(secret)}), secret) as transport:
        return await ask(HubApi(hub.at, transport))


_TOKENS = Listing(
    "tokens",
    {
        "TOKEN": "id", "USER": "user", "SUPERUSER": "superuser", "SCOPES": _rights, "TEAM": "team",
        "CREATED": time_of("createdAt"), "EXPIRES": time_of("validUntil"),
        "ACTIVE": "active", "KEPT IN": lambda token: "store" if token.get("createdAt") else "file",
    },
    expendable=("CREATED", "KEPT IN", "TEAM", "EXPIRES"),
)  # fmt: skip
