"""The tokens of `HUB_TOKENS_FILE`, a TOML file with one `[[tokens]]` table for each token."""

from __future__ import annotations

import asyncio
import hmac
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hub.errors import StartRefused
from hub.observability.logs import get_logger
from hub.settings.toml import read_fields, read_toml
from hub.tokens.certificates import secret_of
from hub.tokens.models import (
    NODE,
    SECRET_MAX,
    Holder,
    Token,
    digest_of,
    id_of,
    read_digest,
    read_expiry,
    read_flag,
    read_labels,
    read_name,
    read_node,
    read_priority,
    read_rooms,
    read_scopes,
    read_team,
    read_user,
    user_of,
)

_log = get_logger("hub.tokens")


def _read_secret(value: Any) -> str:
    digest = digest_of(value) if isinstance(value, str) else None
    if digest is None:
        raise ValueError(f"must be 1 to {SECRET_MAX} visible ASCII characters without blanks")
    return digest


def _read_certificate(value: Any) -> str:
    """Return the digest of the secret that stands for client certificates of this name (`secret_of`)."""
    return str(digest_of(secret_of(read_name(value))))


_FIELDS: dict[str, Callable[[Any], Any]] = {
    "token": _read_secret,
    "sha256": read_digest,
    "user": read_name,
    "user_id": read_user,
    "superuser": read_flag,
    "active": read_flag,
    "scopes": read_scopes,
    "rooms": read_rooms,
    "node": read_node,
    "certificate": _read_certificate,
    "team": read_team,
    "labels": read_labels,
    "max_priority": read_priority,
    "expires": read_expiry,
}


_TERMS = ("team", "labels", "max_priority")  # of borrowers


class TokensFile:
    """The tokens of the tokens file, as of the last time it was read without a fault; none without a path."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._tokens: dict[str, Token] = {}
        self.readings = 0  # how often the file was read without a fault
        self.read()

    @property
    def tokens(self) -> list[Token]:
        """Return the tokens of the file, in the order of the file."""
        return list(self._tokens.values())

    def read(self) -> None:
        """Read the file; raises `StartRefused` with one sentence for a fault, and then the tokens stay as they were."""
        if self._path is not None:
            self._tokens = read_tokens(self._path)
            self.readings += 1
            _log.info("tokens file loaded", path=str(self._path), tokens=len(self._tokens))

    def read_again(self) -> None:
        """Read the file again while the hub serves; for a faulty file log an error, and keep the tokens as they
        were.
        """
        try:
            self.read()
        except StartRefused as error:
            _log.error("tokens file rejected", why=str(error), tokens_kept=len(self._tokens))

    @contextmanager
    def read_again_on_sighup(self, also: Callable[[], None] | None = None) -> Iterator[None]:
        """While the block runs, read the file again and call `also` on SIGHUP. Without path and `also`, and outside the
        main thread, SIGHUP keeps its usual effect."""
        on_main = threading.current_thread() is threading.main_thread()
        heard = on_main and (self._path is not None or also is not None)
        loop = asyncio.get_running_loop()

        def hear() -> None:
            if self._path is not None:
                self.read_again()
            if also is not None:
                also()

        if heard:
            loop.add_signal_handler(signal.SIGHUP, hear)
        try:
            yield
        finally:
            if heard:
                loop.remove_signal_handler(signal.SIGHUP)

    def resolve(self, secret: str) -> Holder | None:
        """Return the holder of this secret; None for a secret of no token in the file."""
        digest = digest_of(secret) if self._tokens else None
        return self.of_digest(digest) if digest else None

    def of_digest(self, digest: str) -> Holder | None:
        """Return the holder of the secret with this digest; None if no token in the file has it."""
        found = self._tokens.get(id_of(digest))
        return found.holder if found and hmac.compare_digest(found.digest, digest) else None

    def find(self, token_id: str) -> Token | None:
        """Return the token with this id; None if the file has none."""
        return self._tokens.get(token_id)


def read_tokens(path: Path) -> dict[str, Token]:
    """Return the tokens of a file by id; raises `StartRefused`, whose sentence names file, entry and field."""
    entries = read_toml(f"HUB_TOKENS_FILE={path}", path, "tokens")
    found: dict[str, Token] = {}
    numbers: dict[str, int] = {}
    for number, entry in enumerate(entries, 1):
        try:
            token = _token(entry)
            if token.id in found:
                raise ValueError(f"token is the one of entry {numbers[token.id]} again")
        except ValueError as error:
            raise _refused(path, f", entry {number}: {error}") from None
        found[token.id], numbers[token.id] = token, number
    return found


def _token(entry: dict[str, Any]) -> Token:
    fields = read_fields(entry, _FIELDS, "token")
    if "node" in fields and (others := fields.keys() & {"user", "user_id", "superuser", "scopes", "rooms", *_TERMS}):
        raise ValueError(f"{min(others)} stands beside node; a node has none of it")
    if "user" not in fields and "node" not in fields:
        raise ValueError("user is missing")
    if len(fields.keys() & {"token", "sha256", "certificate"}) != 1:
        raise ValueError("one of token, sha256 and certificate must be there, and only one")
    return Token(fields.get("token") or fields.get("sha256") or fields["certificate"], _holder(fields))


def _holder(fields: Mapping[str, Any]) -> Holder:
    active = fields.get("active", True)
    if "node" in fields:
        expires_s = fields.get("expires")
        return Holder(fields["node"], user_of(fields["node"]), active=active, kind=NODE, expires_s=expires_s)
    name: str = fields["user"]
    return Holder(
        name,
        fields.get("user_id") or user_of(name),
        fields.get("superuser", False),
        active,
        fields.get("scopes", frozenset()),
        fields.get("rooms", frozenset()),
        team=fields.get("team", ""),
        labels=fields.get("labels", ()),
        max_priority=fields.get("max_priority"),
        expires_s=fields.get("expires"),
    )


def _refused(path: Path, why: str) -> StartRefused:
    return StartRefused(f"HUB_TOKENS_FILE={path}{why}.")
