"""The secret that a node shows: a given one, or a token of its own, which it gets by joining and keeps in a file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from hub.client.exchange import RetryPolicy, Send, exchange
from hub.client.state import AgentOptions
from hub.client.transport import AsyncTransport, Secret
from hub.errors import BadInput, Unauthorized
from hub.tokens.models import digest_of, new_secret

PATIENCE = RetryPolicy(trouble_s=10.0, attempt_s=5.0)


class Credential:
    """The secret of one node. A token in the file, valid for this node alone, is preferred to a given secret."""

    def __init__(self, node_id: str, options: AgentOptions) -> None:
        self._node_id = node_id
        self._options = options
        file = options.get("token_file") or os.environ.get("HUB_NODE_TOKEN_FILE", "")
        self._file = Path(file) if file else None
        self._own = ""

    def transport(self) -> AsyncTransport:
        """Return a transport to the hub that shows the secret; raises `BadInput` when the file cannot be read."""
        if self._file is not None and self._file.exists():
            try:
                self._own = self._file.read_text().strip()
            except (OSError, ValueError) as error:
                raise BadInput(f"The token of the node cannot be read from {self._file}: {error}.") from None
        options = self._options
        secret = Secret(self._own or options.get("secret"), "HUB_NODE_SECRET")
        return AsyncTransport(options.get("url"), secret, options.get("transport"))

    async def admit(self, http: AsyncTransport, register: Callable[[], Awaitable[None]]) -> None:
        """Call `register`; when the hub refuses the secret and there is a join token, join and call it again.

        Raises what `register` raises, `NodeTaken` when the hub already has another token for the node, and `BadInput`
        for a join token that cannot be one or a file that cannot be written.
        """
        try:
            await register()
        except Unauthorized:
            if not (join_token := _join_token(self._options)):
                raise
            await self._join(http, join_token)
            await register()

    async def _join(self, http: AsyncTransport, join_token: str) -> None:
        """Make a token of the node's own, have the hub accept it by the join token, and show it from now on.

        Safe to repeat.
        """
        if not self._own:
            made = new_secret()
            try:
                self._keep(made)  # first: a node cannot join again after it has lost its token
            except OSError as error:
                raise BadInput(f"The token of the node cannot be kept in {self._file}: {error}.") from None
            self._own = made
        body: dict[str, object] = {"nodeId": self._node_id, "sha256": digest_of(self._own)}
        if self._file is None:
            body["kept"] = False
        await http.run(exchange(Send("POST", "/node/join", body, headers={"x-hub-secret": join_token}), PATIENCE))
        http.credentials = Secret(self._own)

    def _keep(self, secret: str) -> None:
        """Write the token to the file, whole or not at all, readable only by its owner."""
        if self._file is None:
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=self._file.parent, prefix=f".{self._file.name}.")
        try:
            with os.fdopen(handle, "w") as file:
                file.write(secret + "\n")
            os.replace(name, self._file)
        except BaseException:
            os.unlink(name)
            raise


def _join_token(options: AgentOptions) -> str:
    """Return the token to join with, "" when there is none; raises `BadInput` for a text that no token can be."""
    given = options.get("join_token")
    token = (given or os.environ.get("HUB_JOIN_TOKEN", "")).strip()
    if token and (digest_of(token) is None or not any(char.isalnum() for char in token)):
        named = "join_token" if given else "HUB_JOIN_TOKEN"
        raise BadInput(f"{named} holds no token; `hub token create --join NAME` makes one for nodes to join with.")
    return token
