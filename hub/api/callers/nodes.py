"""The right to speak for nodes: a caller with a shared secret speaks for any node, a caller with a node's own token for
this node alone."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request

from hub.api.callers.users import bearer
from hub.api.handling.context import serving
from hub.errors import Forbidden, Unauthorized
from hub.tokens.models import JOIN, NODE, Holder, id_of
from hub.tokens.secrets import HEADER


@dataclass(frozen=True)
class Speaker:
    """A caller that speaks for the node `node`, or for any node when that is None. `token` is the id of the token that
    the caller has shown."""

    node: str | None = None
    token: str = ""

    @property
    def key(self) -> str:
        """Return the name under which the calls of this caller are counted."""
        return f"token:{self.token}"

    def check(self, node: str) -> None:
        """Raise `Forbidden` unless the caller may speak for this node."""
        if self.node not in (None, node):
            raise Forbidden(f"The token shown speaks for node {self.node!r:.80} alone, and this is about {node!r:.80}.")

    async def check_slot(self, request: Request, slot: str) -> None:
        """Raise `Forbidden` unless the slot belongs to the caller's node. A caller that speaks for any node may name
        any slot."""
        store = serving(request).hub.store
        if self.node is not None and await store.read("HGET", store.keys.slot(slot), "node") != self.node:
            raise Forbidden(f"The token shown speaks for node {self.node!r:.80} alone, which has no slot {slot!r:.80}.")


ANYBODY = Speaker()


async def speaker(request: Request, *roles: str) -> Speaker:
    """Return the node that a request speaks for: any node with the secret of one of these roles, else the node whose
    token is shown.

    Raises `Unauthorized` for any other caller, and `StoreUnavailable` when Redis has to be asked and does not answer.
    """
    found = serving(request)
    try:
        found.secrets.check(request.headers, *roles)
    except Unauthorized:
        secret = _shown(request)
        holder, digest = await found.holders.resolve(secret), found.holders.digest_of(secret)
        if holder is None or digest is None or not speaks(holder):
            raise
        return Speaker(holder.name, id_of(digest))
    return ANYBODY


async def joiner(request: Request) -> Speaker:
    """Return a caller that shows a token for joining, which lets new nodes get a token of their own; raises as
    `speaker` does."""
    found, secret = serving(request), _shown(request)
    holder, digest = await found.holders.resolve(secret), found.holders.digest_of(secret)
    if holder is None or not holder.active or holder.kind != JOIN:
        raise Unauthorized()
    return Speaker(token=id_of(digest or ""))


def _shown(request: Request) -> str:
    return bearer(request.headers.getlist("authorization")) or request.headers.get(HEADER, "")


def speaks(holder: Holder) -> bool:
    """Return whether a token is an active token of a node."""
    return holder.kind == NODE and holder.active
