"""How the commands of jobs reach the jobs API: as the user of a bearer token, or as an operator."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from hub.cli.connection import Address, HubApi, address, connect, plain_logs
from hub.cli.environment import environment, given_secret
from hub.cli.inputs import Usage
from hub.cli.look import PAGE, members
from hub.client.calls import NEUTRAL, path
from hub.client.exchange import RetryPolicy, Send, exchange
from hub.errors import HubError, Unauthorized

PATIENCE = RetryPolicy(trouble_s=5.0, attempt_s=10.0)


@dataclass(frozen=True)
class JobsCaller:
    """Who asks which hub; without a token with the secret of the address."""

    at: Address
    token: str


def caller(url: str | None, secret: str | None, token: str | None) -> JobsCaller:
    """The caller of the command line, else of the environment and `.env`."""
    plain_logs()
    if token is not None and secret is not None:
        raise Usage("--token and --secret exclude each other.")
    if token is None and secret is None:
        token = environment().get("HUB_TOKEN", "")
    elif token is not None:
        token = given_secret(token, "--token")
    token = (token or "").strip()
    if not token.isascii() or not token.isprintable() or " " in token:
        raise Usage("The token has characters that no token has.")
    if token and not any(each.isalnum() for each in token):
        raise Usage("HUB_TOKEN, or --token, has no token in it.")
    return JobsCaller(address(url, "" if token else secret, "admin"), token)


class JobsApi(HubApi):
    """The jobs API of a hub that can be asked."""

    def __init__(self, hub: HubApi, token: str) -> None:
        super().__init__(hub._transport)
        self._identity = {"authorization": f"Bearer {token}"} if token else {}

    async def ask(
        self,
        method: str,
        *parts: str,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        wait_s: float = 0.0,
        **query: Any,
    ) -> dict[str, Any]:
        """What the hub answers; a `HubError` when it refuses. It may take `wait_s` longer than other answers."""
        wanted = {name: str(value) for name, value in query.items() if value is not None}
        where = path("v1", "joblib", *parts)
        send = Send(method, where, body, wanted, {**NEUTRAL, **self._identity, **(headers or {})}, wait_s=wait_s)
        answer = await self._transport.run(exchange(send, PATIENCE))
        if not isinstance(answer.data, dict):
            raise HubError(f"What answers {method} {where} is no capacity hub.")
        return answer.data

    async def pages(self, limit: int, name: str, *parts: str, **query: Any) -> tuple[int, list[dict[str, Any]]]:
        """(how many there are, at most `limit` of them); `name` is the member that tells one from another."""
        found: dict[str, dict[str, Any]] = {}  # a list that grows at its head meanwhile shows some of it again
        offset = 0
        while True:
            page = await self.ask("GET", *parts, limit=min(PAGE, limit), offset=offset, **query)
            total, rows = members(page, "items")
            found |= {str(row.get(name)): row for row in rows}
            offset += len(rows)
            if not rows or offset >= total or len(found) >= limit:
                return total, list(found.values())[:limit]


@asynccontextmanager
async def jobs_api(who: JobsCaller) -> AsyncIterator[JobsApi]:
    """The jobs API for a caller; where no hub listens and none was asked for by name, straight on Redis."""
    try:
        async with connect(who.at) as hub:
            yield JobsApi(hub, who.token)
    except Unauthorized:
        what = "token" if who.token else "secret"
        hint = "give --token or set HUB_TOKEN, or set HUB_ADMIN_SECRET as the hub has it."
        raise HubError(f"The hub refuses the {what}; {hint}") from None
