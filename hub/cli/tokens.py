"""`hub token`: who may use the jobs API, and speak for a node. Secrets are made here, and only their digests travel."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any, TypeVar

import httpx
import typer
from pydantic import SecretStr

from hub.cli import completing, global_options, output, tables
from hub.cli.connection import Address, HubApi, connect, operating
from hub.cli.direct import store_settings, store_shown
from hub.cli.inputs import Usage, read_id, shown
from hub.cli.look import PAGE, members
from hub.cli.options import AsJson, Secret, Url
from hub.cli.times import when
from hub.client.transport import AsyncTransport
from hub.errors import HubUnavailable, Unauthorized
from hub.settings import Settings
from hub.settings.realms import DEFAULT
from hub.tokens.models import SCOPES, digest_of, new_secret, read_name, read_node, read_rooms, read_user

_COLUMNS = ("TOKEN", "USER", "SUPERUSER", "SCOPES", "CREATED", "ACTIVE", "KEPT IN")
_LESS_WANTED = ("CREATED", "KEPT IN")
T = TypeVar("T")
TokenId = Annotated[
    str,
    typer.Argument(parser=read_id, metavar="ID", help="As `hub token ls` shows it.", autocompletion=completing.tokens),
]

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
    typer.Option("--node", parser=_reader(read_node), metavar="NODE", help="Or: the one node it speaks for."),
]
_Join = Annotated[
    str | None,
    typer.Option(
        "--join",
        parser=_reader(read_name),
        metavar="NAME",
        help="Or: a token, called so, that nodes exchange for one of their own.",
    ),
]
_Rooms = Annotated[
    list[str] | None,
    typer.Option("--room", metavar="ROOM", help="Good in this room alone, and to see @global. Repeatable."),
]


@app.command("create")
def create(
    user: Annotated[
        str | None, typer.Option("--user", parser=_reader(read_name), metavar="NAME", help="Who will show it.")
    ] = None,
    node: _Node = None,
    join: _Join = None,
    user_id: Annotated[
        str | None,
        typer.Option("--user-id", parser=_reader(read_user), metavar="UUID", help="Else derived from the name."),
    ] = None,
    superuser: Annotated[bool, typer.Option("--superuser", help="May do what only superusers may.")] = False,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            "--scope",
            parser=_read_scope,
            metavar="|".join(SCOPES),
            help="Good for this alone. Repeatable. Else: for all.",
        ),
    ] = None,
    room: _Rooms = None,
    as_json: AsJson = False,
    url: Url = None,
    secret: Secret = None,
) -> None:
    """Make a token for a user, a node, or nodes to join with, and print it, this once.

    The first one shuts the jobs API of a hub without secrets to strangers.
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
    asyncio.run(_create(operating(url, secret), wanted, as_json))


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
@app.command("list", hidden=True)
def listed(as_json: AsJson = False, url: Url = None, secret: Secret = None) -> None:
    """Show the tokens, newest first, and those of HUB_TOKENS_FILE; never a secret."""
    asyncio.run(_list(operating(url, secret), as_json))


@app.command("show")
def look(token: TokenId, as_json: AsJson = False, url: Url = None, secret: Secret = None) -> None:
    """Show a token; never its secret."""
    asyncio.run(_look(operating(url, secret), token, as_json))


@app.command("revoke")
def revoke(
    token: TokenId,
    as_json: AsJson = False,
    url: Url = None,
    secret: Secret = None,
) -> None:
    """Revoke a token: within a second no hub knows it any more."""
    asyncio.run(_revoke(operating(url, secret), token, as_json))


async def _create(at: Address, wanted: dict[str, Any], as_json: bool) -> None:
    made = new_secret("" if global_options.realm() in (None, DEFAULT) else str(global_options.realm()))
    body = {**wanted, "sha256": digest_of(made)}  # asked again after a lost answer, this makes no second token
    answer = await _ask(at, lambda hub: hub.post("admin", "tokens", body=body))
    if as_json:
        output.put_json({**answer, "token": made})
        return
    output.put(made)
    of = {"node": "node ", "join": "nodes that join: "}.get(str(answer.get("kind")), "")
    output.note(f"this is token {answer.get('id')} of {of}{answer.get('user')}; it is not shown again.")


async def _list(at: Address, as_json: bool) -> None:
    found = await _ask(at, _all)
    if as_json:
        output.put_json(found)
        return
    rows = [_row(token, "store") for token in found["tokens"]] + [_row(token, "file") for token in found["inFile"]]
    if rows:
        tables.put_table(_COLUMNS, rows, expendable=_LESS_WANTED)
    else:
        output.put("There are no tokens.")


async def _look(at: Address, token: str, as_json: bool) -> None:
    found = await _ask(at, lambda hub: hub.get("admin", "tokens", token))
    if as_json:
        output.put_json(found)
        return
    tables.put_facts(zip(_COLUMNS, _row(found, "store" if found.get("createdAt") else "file"), strict=True))


async def _all(hub: HubApi) -> dict[str, Any]:
    found: list[dict[str, Any]] = []
    while True:
        page = await hub.get("admin", "tokens", offset=len(found), limit=PAGE)
        total, tokens = members(page, "tokens")
        found += tokens
        if not tokens or len(found) >= total:
            return {"total": total, "tokens": found, "inFile": list(page.get("inFile") or ())}


def _row(token: dict[str, Any], where: str) -> tuple[Any, ...]:
    kind, created = token.get("kind", "user"), token.get("createdAt")
    rights = [*(token.get("scopes") or ("all",)), *(f"in {room}" for room in token.get("rooms") or ())]
    scopes = " ".join(rights) if kind == "user" else kind
    return (
        token.get("id"), token.get("user"), token.get("superuser"), scopes,
        created and when(created), token.get("active"), where,
    )  # fmt: skip


async def _revoke(at: Address, token: str, as_json: bool) -> None:
    answer = await _ask(at, lambda hub: hub.delete("admin", "tokens", token))
    if as_json:
        output.put_json(answer)
        return
    output.put(f"{token} is revoked.")
    if answer.get("last"):
        output.note("no token is left: where no secret is set either, everybody on that machine may use the jobs API.")


async def _ask(at: Address, ask: Callable[[HubApi], Awaitable[T]]) -> T:
    """Ask the hub. Where it refuses somebody who has no secret, straight on Redis: who can write there needs none."""
    try:
        async with connect(at) as hub:
            return await ask(hub)
    except Unauthorized as error:
        if at.chosen or at.secret:
            raise
        try:
            settings = store_settings("The hub asks for a secret")
        except HubUnavailable:
            raise error from None
    async with _on_redis(settings) as hub:
        return await ask(hub)


@asynccontextmanager
async def _on_redis(settings: Settings) -> AsyncIterator[HubApi]:
    from hub.api.app import create_app  # as in `connect`

    output.note(f"the hub asks for a secret; working straight on Redis at {store_shown(settings)}.")
    secret = secrets.token_hex(16)
    app = create_app(settings.model_copy(update={"admin_secret": SecretStr(secret)}), sweep=False)
    async with app.app.router.lifespan_context(app.app):
        inside = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        transport = AsyncTransport("http://in-process", secret, "", inside)
        try:
            yield HubApi(transport)
        finally:
            await transport.close()
