"""The shared secrets of the roles runner, node and admin, which callers send in the header `x-hub-secret`."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping

from pydantic import SecretStr

from hub.errors import Unauthorized
from hub.settings import Settings

HEADER = "x-hub-secret"
RUNNER, NODE, ADMIN = "runner", "node", "admin"


class Secrets:
    """The shared secrets of the settings. Without any, every caller has all rights: then the hub serves on loopback."""

    def __init__(self, settings: Settings) -> None:
        self.open = settings.open_access
        self.is_login: Callable[[str], bool] | None = None  # whether a text stands for an issuer's user in the console
        admin = settings.admin_secret or settings.runner_secret
        self._names = {
            member: f"{role} secret" + (f" {number} of {len(members)}" if len(members) > 1 else "")
            for role, secret in (
                (NODE, settings.node_secret),
                (RUNNER, settings.runner_secret),
                (ADMIN, settings.admin_secret),
            )
            for members in [_parts(secret)]
            for number, member in enumerate(members, 1)
        }
        self._accepted = {
            RUNNER: _members(settings.runner_secret),
            NODE: _members(settings.node_secret),
            ADMIN: _members(admin),
        }

    @property
    def members(self) -> tuple[bytes, ...]:
        """Return every text that is accepted as a secret of any role, as bytes, sorted."""
        return tuple(sorted({member for accepted in self._accepted.values() for member in accepted}))

    def name(self, given: str) -> str:
        """Return the name of this secret, such as "node secret 1 of 2"; "" if it is not accepted."""
        shown = given.encode("latin-1", "replace")
        found = ""
        for role, members in self._accepted.items():  # the whole text of a list of secrets is accepted too
            for member in members:
                if hmac.compare_digest(shown, member):
                    found = f"{role} secret"
        for secret, name in self._names.items():
            if hmac.compare_digest(shown, secret):
                found = name
        return found

    def check(self, headers: Mapping[str, str], *roles: str) -> None:
        """Raise `Unauthorized` unless the secret in the headers is one of these roles. Compares in constant time."""
        if not self.open:
            self.check_value(headers.get(HEADER, ""), *roles)

    def check_value(self, given: str, *roles: str) -> None:
        """Raise `Unauthorized` unless `given`, the value of the header, is a secret of one of these roles."""
        if not self.accepts(given, *roles):
            raise Unauthorized()

    def accepts(self, given: str, *roles: str) -> bool:
        """Return whether `given`, the value of the header, is a secret of one of these roles; with no secret set, any
        value is."""
        accepted = self.open
        shown = given.encode("latin-1", "replace")  # the bytes that the caller sent
        for role in roles:
            for secret in self._accepted[role]:
                accepted |= hmac.compare_digest(shown, secret)
        if not {RUNNER, ADMIN}.isdisjoint(roles):
            accepted |= self.is_user(given)  # the role of the login bounds it
        return accepted

    def is_user(self, given: str) -> bool:
        """Return whether `given` stands for a login to the console of a user of the issuer, who acts in its own
        name."""
        return self.is_login is not None and self.is_login(given)


def _parts(secret: SecretStr | None) -> list[bytes]:
    """Return the secrets in a comma-separated list, in order, as bytes."""
    text = secret.get_secret_value() if secret else ""
    return [part.strip().encode() for part in text.split(",") if part.strip()]


def _members(secret: SecretStr | None) -> tuple[bytes, ...]:
    """Return each secret in a comma-separated list, which is for rotation, and the whole text as a secret too."""
    text = secret.get_secret_value() if secret else ""
    parts = {part.strip() for part in text.split(",")} | {text, text.strip()}
    return tuple(part.encode() for part in sorted(parts) if part)
