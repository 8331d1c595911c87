"""The jobs API of a hub, which a command calls as the user of a bearer token, or as an operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hub.cli.connection import PAGE, Address, HubApi, address, members
from hub.cli.environment import environment, given_secret
from hub.cli.inputs import Usage
from hub.errors import HubError, Unauthorized


class JobsApi(HubApi):
    """The jobs API of a hub; its calls are made inside an `async with` block, with the token, or else the secret."""

    def __init__(self, at: Address, token: str) -> None:
        super().__init__(at)
        self._token = token

    @classmethod
    def of_command_line(cls, url: str | None, secret: str | None, token: str | None) -> JobsApi:
        """Return the API with the token or secret of the command line, else of the environment and `.env`.

        Raises `Usage`.
        """
        if token is not None and secret is not None:
            raise Usage("--token and --secret exclude each other.")
        if token is None and secret is None:
            token = environment().get("HUB_TOKEN", "")
        elif token is not None:
            token = given_secret(token, "--token")
        token = (token or "").strip()
        if not token.isascii() or not token.isprintable() or " " in token:
            raise Usage("The token has characters that no token has.")
        if token and not any(char.isalnum() for char in token):
            raise Usage("HUB_TOKEN, or --token, has no token in it.")
        return cls(address(url, "" if token else secret, "admin"), token)

    async def ask(
        self,
        method: str,
        *parts: str,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        wait_s: float = 0.0,
        **query: Any,
    ) -> dict[str, Any]:
        """Return the answer to a call, which the hub may hold for `wait_s`; raise a `HubError` when the hub refuses."""
        wanted = {name: str(value) for name, value in query.items() if value is not None}
        identity = {"authorization": f"Bearer {self._token}"} if self._token else {}
        shown = {**identity, **(headers or {})}
        try:
            return await self._send(method, ("v1", "joblib", *parts), body, query=wanted, headers=shown, wait_s=wait_s)
        except Unauthorized:
            what = "token" if self._token else "secret"
            hint = "give --token or set HUB_TOKEN, or set HUB_ADMIN_SECRET as the hub has it."
            raise HubError(f"The hub refuses the {what}; {hint}") from None

    async def pages(self, limit: int, name: str, *parts: str, **query: Any) -> tuple[int, list[dict[str, Any]]]:
        """Return the total of a list and at most `limit` of its rows; `name` is the member that identifies a row."""
        rows_by_name: dict[str, dict[str, Any]] = {}  # pages may repeat rows when the list grows
        offset = 0
        while True:
            page = await self.ask("GET", *parts, limit=min(PAGE, limit), offset=offset, **query)
            total, rows = members(page, "items")
            rows_by_name |= {str(row.get(name)): row for row in rows}
            offset += len(rows)
            if not rows or offset >= total or len(rows_by_name) >= limit:
                return total, list(rows_by_name.values())[:limit]
