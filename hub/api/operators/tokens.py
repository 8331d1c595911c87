"""The endpoints for tokens of users and of nodes: operators make, list and revoke them."""

from __future__ import annotations

from fastapi import APIRouter, Request

from hub.api.callers.caller import OPERATOR
from hub.api.callers.credentials import origin
from hub.api.inputs import Audit, Caller, Page, Sent, Serving
from hub.api.operations import CALLER, operation
from hub.api.shapes.answer import Answer
from hub.api.shapes.operator_bodies import TokenBody
from hub.api.shapes.operators import MadeTokenShape, RevokedShape, TokenShape, TokensShape
from hub.errors import Forbidden, InvalidJson, InvalidValue, MissingMember, NotFound
from hub.jobs.names import dashed
from hub.tokens.models import USER, Holder, Token, digest_of, in_order, new_secret
from hub.wire import time_at

router = APIRouter(tags=["admin"])
_REFUSALS = (Forbidden, InvalidJson, MissingMember, InvalidValue)


@router.post(
    "/admin/tokens",
    **operation(
        "createToken", CALLER, status=201, refusals=_REFUSALS, least="admin", scopes=("admin",), superuser=True
    ),
)
async def create(serving: Serving, operator: Caller, body: Sent[TokenBody], audit: Audit) -> Answer[MadeTokenShape]:
    """Make a token for a user, for a node, or for nodes to join with. Its secret is in `token`, in this answer only.
    With `sha256` only the caller knows the secret, and the call may be repeated. Tokens of nodes and for joining are
    made and revoked with the admin secret only.

    The first token of a hub without secrets closes the hub's jobs API to callers without a token.
    """
    holder = body.holder
    _check_kind(operator, holder)
    if holder.superuser and operator.scopes and (not holder.scopes or holder.scopes - operator.scopes):
        raise Forbidden("A superuser with scopes makes tokens of superusers with these scopes alone.")
    secret = "" if body.sha256 else new_secret(serving.hub.settings.realm)
    token = await serving.hub.tokens.create(holder, body.sha256 or digest_of(secret) or "", body.lives_s)
    serving.holders.forget()
    made = _shown(token)
    await audit.write(
        "admin", "token.create", actor=operator.name, id=token.id, user=holder.name,
        userId=dashed(holder.user), superuser=holder.superuser, scopes=" ".join(in_order(holder.scopes)) or "all",
        kind=holder.kind, rooms=", ".join(sorted(holder.rooms)) or "all",
        labels=", ".join(holder.labels) or "all", team=holder.team, expires=made["validUntilUtc"] or "never",
    )  # fmt: skip
    if secret:
        made["token"] = secret
    answer = Answer(made, 201)
    answer.headers["cache-control"] = "no-store"
    return answer


@router.get("/admin/tokens", **operation("listTokens", CALLER, refusals=_REFUSALS, scopes=("admin",), superuser=True))
async def tokens(serving: Serving, page: Page) -> Answer[TokensShape]:
    """Return the tokens made at run time, newest first, and those of HUB_TOKENS_FILE; never a secret."""
    total, found = await serving.hub.tokens.page(*page)
    in_file: list[TokenShape] = [_shown(token) for token in serving.holders.file.tokens]
    return Answer(TokensShape(total=total, tokens=[_shown(token) for token in found], inFile=in_file))


@router.get(
    "/admin/tokens/{id}",
    **operation("getToken", CALLER, refusals=(*_REFUSALS, NotFound), scopes=("admin",), superuser=True),
)
async def look(serving: Serving, id: str) -> Answer[TokenShape]:
    """Return a token, without its secret."""
    return Answer(_shown(serving.holders.file.find(id) or await serving.hub.tokens.get(id)))


@router.delete(
    "/admin/tokens/{id}",
    **operation(
        "revokeToken",
        CALLER,
        refusals=(*_REFUSALS, InvalidValue, NotFound),
        least="admin",
        scopes=("admin",),
        superuser=True,
    ),
)
async def revoke(request: Request, serving: Serving, operator: Caller, id: str) -> Answer[RevokedShape]:
    """Revoke a token: within a second no hub accepts it any more. `last` says that no token is left, so that a hub
    without secrets is open again."""
    if serving.holders.file.find(id):
        raise InvalidValue("This token stands in HUB_TOKENS_FILE: take it out there and send SIGHUP", member="id")
    _check_kind(operator, (await serving.hub.tokens.get(id)).holder)
    by = await origin(request)  # first: the caller may revoke its own token
    await serving.hub.tokens.revoke(id)
    serving.holders.forget()
    await serving.hub.audit.write("admin", "token.revoke", actor=operator.name, **by, id=id)
    return Answer(RevokedShape(revoked=id, last=await serving.holders.none()))


def _check_kind(operator: Caller, holder: Holder) -> None:
    """Raise `Forbidden` for a superuser that makes or revokes a token of nodes: with such a token it could end leases.
    Only the operator may do that."""
    if holder.kind != USER and operator is not OPERATOR:
        raise Forbidden("Tokens of nodes, and to join with, are made and revoked with the admin secret alone.")


def _shown(token: Token) -> MadeTokenShape:
    holder, at = token.holder, token.created_us
    return MadeTokenShape(
        id=token.id,
        kind=holder.kind,
        user=holder.name,
        userId=dashed(holder.user),
        superuser=holder.superuser,
        active=holder.active,
        scopes=in_order(holder.scopes) or None,
        rooms=sorted(holder.rooms) or None,
        labels=list(holder.labels) or None,
        team=holder.team or None,
        maxPriority=holder.max_priority,
        validUntilUtc=None if holder.expires_s is None else time_at(holder.expires_s),
        createdAtUtc=None if at is None else time_at(at / 1_000_000),
    )
