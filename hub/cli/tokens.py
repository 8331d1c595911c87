"""`hub token`: shows, makes and revokes tokens of users and nodes. A secret is made here; the hub gets its digest."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

import typer
from pydantic import SecretStr

from hub.cli import output, tables
from hub.cli.answers import CommandAnswer, facts
from hub.cli.command import Work, command
from hub.cli.connection import PAGE, HubApi, members
from hub.cli.direct import store_settings, store_shown, within_process
from hub.cli.global_options import realm
from hub.cli.inputs import Usage, shown
from hub.cli.times import when
from hub.cli.values import TOKEN
from hub.errors import HubUnavailable, Unauthorized
from hub.settings.realms import DEFAULT
from hub.tokens.models import SCOPES, digest_of, new_secret, read_name, read_node, read_rooms, read_user

_COLUMNS = ("TOKEN", "USER", "SUPERUSER", "SCOPES", "CREATED", "ACTIVE", "KEPT IN")
_LESS_WANTED = ("CREATED", "KEPT IN")
_NONE_LEFT = "no token is left: where no secret is set either, everybody on that machine may use the jobs API."
T = TypeVar("T")
TokenId = Annotated[str, TOKEN.argument("The id of the token, as `hub token ls` shows it.")]

app = typer.Typer(help="Make, list and revoke the tokens of users and of nodes.")


def _reader(read: Callable[[Any], str]) -> Callable[[str], str]:
    def parse(text: str) -> str:
        try:
            return read(text)
        except ValueError as error:
            raise typer.BadParameter(f"{shown(text)} {error}.") from None

    return parse


def _read_scope(text: str) -> str:
    if text not in SCOPES:
        raise typer.BadParameter(f"{shown(text)} is none of {', '.join(SCOPES)}.")
    return text


_Node = Annotated[
    str | None,
    typer.Option("--node", parser=_reader(read_node), metavar="NODE", help="Make a token of this node instead."),
]
_Join = Annotated[
    str | None,
    typer.Option(
        "--join",
        parser=_reader(read_name),
        metavar="NAME",
        help="Make a join token of this name instead: nodes exchange it for their own.",
    ),
]
_Rooms = Annotated[
    list[str] | None,
    typer.Option("--room", metavar="ROOM", help="Allow only this room, and reading @global. Repeatable."),
]


@app.command("create")
@command("admin")
def create(
    hub: HubApi,
    user: Annotated[
        str | None, typer.Option("--user", parser=_reader(read_name), metavar="NAME", help="The name of the user.")
    ] = None,
    node: _Node = None,
    join: _Join = None,
    user_id: Annotated[
        str | None,
        typer.Option(
            "--user-id",
            parser=_reader(read_user),
            metavar="UUID",
            help="The id of the user. Default: derived from the name.",
        ),
    ] = None,
    superuser: Annotated[bool, typer.Option("--superuser", help="Give the user the rights of a superuser.")] = False,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            "--scope",
            parser=_read_scope,
            metavar="|".join(SCOPES),
            help="Allow only this scope. Repeatable. Default: all scopes.",
        ),
    ] = None,
    room: _Rooms = None,
) -> Work:
    """Make a token of a user or a node, or a join token, and print it. It is not shown again.

    On a hub without secrets the first token closes the jobs API to callers without one.
    """
    wanted = _whose(user, node, join)
    if node or join:
        if user_id or superuser or scope or room:
            raise Usage("--user-id, --superuser, --scope and --room are for tokens of users.")
    else:
        wanted["superuser"] = superuser
    if room:
        wanted["rooms"] = _rooms(room)
    if user_id is not None:
        wanted["userId"] = user_id
    if scope:
        wanted["scopes"] = list(dict.fromkeys(scope))
    return _create(hub, wanted)


def _whose(user: str | None, node: str | None, join: str | None) -> dict[str, Any]:
    given = {name: text for name, text in (("user", user), ("node", node), ("join", join)) if text is not None}
    if not given:
        raise Usage("Missing option '--user': say one of --user, --node and --join.")
    if len(given) > 1:
        raise Usage(f"{' and '.join(f'--{name}' for name in given)} exclude each other.")
    return dict(given)


def _rooms(given: list[str]) -> list[str]:
    try:
        return sorted(read_rooms(given))
    except ValueError as error:
        raise Usage(f"--room {error}.") from None


@app.command("ls")
@command("admin")
async def listed(hub: HubApi) -> CommandAnswer:
    """Show the tokens, newest first, and those of HUB_TOKENS_FILE, without their secrets."""
    tokens = await _ask(hub, _all)

    def show() -> None:
        rows = [_row(token, "store") for token in tokens["tokens"]] + [
            _row(token, "file") for token in tokens["inFile"]
        ]
        if rows:
            tables.put_table(_COLUMNS, rows, expendable=_LESS_WANTED)
        else:
            output.put("There are no tokens.")

    return CommandAnswer(tokens, show)


@app.command("show")
@command("admin")
async def look(hub: HubApi, token: TokenId) -> CommandAnswer:
    """Show a token without its secret."""
    answer = await _ask(hub, lambda hub: hub.get("admin", "tokens", token))
    row = _row(answer, "store" if answer.get("createdAt") else "file")
    return facts(answer, zip(_COLUMNS, row, strict=True))


@app.command("revoke")
@command("admin")
async def revoke(hub: HubApi, token: TokenId) -> CommandAnswer:
    """Revoke a token: within a second no hub accepts it any more."""
    answer = await _ask(hub, lambda hub: hub.delete("admin", "tokens", token))

    def show() -> None:
        output.put(f"{token} is revoked.")
        if answer.get("last"):
            output.note(_NONE_LEFT)

    return CommandAnswer(answer, show)


async def _create(hub: HubApi, wanted: dict[str, Any]) -> CommandAnswer:
    made = new_secret("" if realm() in (None, DEFAULT) else str(realm()))
    body = {**wanted, "sha256": digest_of(made)}  # a repeat of the call makes no second token
    answer = await _ask(hub, lambda hub: hub.post("admin", "tokens", body=body))

    def show() -> None:
        output.put(made)
        of = {"node": "node ", "join": "nodes that join: "}.get(str(answer.get("kind")), "")
        output.note(f"this is token {answer.get('id')} of {of}{answer.get('user')}; it is not shown again.")

    return CommandAnswer({**answer, "token": made}, show)


async def _all(hub: HubApi) -> dict[str, Any]:
    so_far: list[dict[str, Any]] = []
    while True:
        page = await hub.get("admin", "tokens", offset=len(so_far), limit=PAGE)
        total, tokens = members(page, "tokens")
        so_far += tokens
        if not tokens or len(so_far) >= total:
            return {"total": total, "tokens": so_far, "inFile": list(page.get("inFile") or ())}


def _row(token: dict[str, Any], where: str) -> tuple[Any, ...]:
    kind, created = token.get("kind", "user"), token.get("createdAt")
    rights = [*(token.get("scopes") or ("all",)), *(f"in {room}" for room in token.get("rooms") or ())]
    scopes = " ".join(rights) if kind == "user" else kind
    return (
        token.get("id"), token.get("user"), token.get("superuser"), scopes,
        created and when(created), token.get("active"), where,
    )  # fmt: skip


async def _ask(hub: HubApi, ask: Callable[[HubApi], Awaitable[T]]) -> T:
    """Ask the hub. When it refuses this caller, who has no secret, ask a hub inside this process, straight on Redis."""
    try:
        return await ask(hub)
    except Unauthorized as error:
        if hub.at.chosen or hub.at.secret:
            raise
        try:
            settings = store_settings("The hub asks for a secret")
        except HubUnavailable:
            raise error from None
    output.note(f"the hub asks for a secret; working straight on Redis at {store_shown(settings)}.")
    secret = secrets.token_hex(16)
    async with within_process(settings.model_copy(update={"admin_secret": SecretStr(secret)}), secret) as transport:
        return await ask(HubApi(hub.at, transport))
