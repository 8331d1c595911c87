"""The users of the issuer: who an access token or a login to the console stands for."""

from __future__ import annotations

import hashlib
import math
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from hub.errors import Forbidden, Unauthorized
from hub.settings import Settings
from hub.tokens.oidc.issuer import Issuer, TokenOver
from hub.tokens.oidc.keys import IssuerKeys
from hub.tokens.oidc.rules import ClaimRules, Identity

SKEW_S: Final = 60.0  # clocks of the issuer and of this hub may differ by so much
TOKEN_MAX: Final = 16_384  # characters
KEPT_MAX: Final = 10_000  # tokens whose check is remembered at once
CLAIMS_MAX: Final = 8_192  # bytes of the claims that a login keeps
_LOOKED_S: Final = 15  # sockets are checked this often for tokens that have ended


@dataclass(frozen=True)
class _Checked:
    """A token whose signature was right: the times between which it holds, and its user, or why it has no rights."""

    since_s: float
    until_s: float
    user: Identity | Forbidden


class OidcUsers:
    """The users of the issuer, by their access tokens and by their logins to the console."""

    def __init__(self, settings: Settings, wall_s: Callable[[], float]) -> None:
        """Read the rules; raises `StartRefused`. The issuer is asked only when the first token or login comes."""
        settings.refuse_oidc_in_part()
        assert settings.oidc_rules_file is not None
        self.rules = ClaimRules(settings.oidc_rules_file, settings.oidc_issuer)
        self.issuer = Issuer(settings.oidc_issuer)
        self.keys = IssuerKeys(self.issuer)
        self._audience = settings.oidc_audience or settings.oidc_client_id
        self._wall_s = wall_s
        self._kept: dict[bytes, _Checked] = {}
        self._logins: dict[str, Identity] = {}
        self._generation = 0
        self._inside = f"login-{secrets.token_hex(32)}-"

    @property
    def changes(self) -> tuple[int, int]:
        """Return two numbers that change when a token may have ended."""
        return self.keys.generation, int(self._wall_s()) // _LOOKED_S

    async def find(self, credential: str) -> Identity | None:
        """Return the user of an access token, or of the text that `handle` made; None for any other text.

        Raises `Unauthorized` for a token that is not valid, `Forbidden` for a user without rights, and `IssuerAway`
        when the token needs a key that cannot be asked for.
        """
        if self.is_login(credential):
            user = self.of_login(urlsafe_b64decode(credential[len(self._inside) :]).decode())
            if user is None:
                raise Unauthorized()
            holder = replace(user.holder, superuser=True, scopes=frozenset())  # the role of the login bounds it
            return replace(user, holder=holder)
        if credential.count(".") != 2 or not credential.startswith("ey"):
            return None
        self.keys.keep_fresh()
        self._forget_old()
        digest = hashlib.sha256(credential.encode()).digest()
        checked = self._kept.get(digest) or await self._check(credential, digest)
        now = self._wall_s()
        if now >= checked.until_s + SKEW_S:
            raise TokenOver("The token has expired: log in again, or refresh it.")
        if now < checked.since_s - SKEW_S:
            raise TokenOver("The token is not valid yet: look at the clocks of the issuer and of Redis.")
        if isinstance(checked.user, Forbidden):
            raise Forbidden(checked.user.detail)
        return checked.user

    def _forget_old(self) -> None:
        """Forget all checked tokens when the keys have changed: the key of some may have been withdrawn."""
        if self._generation != self.keys.generation:
            self._generation = self.keys.generation
            self._kept.clear()

    async def _check(self, token: str, digest: bytes) -> _Checked:
        claims = await self.claims(token, self._audience)
        self._forget_old()
        try:
            user: Identity | Forbidden = self.rules.identity(claims)
        except Forbidden as error:
            user = error
        checked = self._kept[digest] = _Checked(_time(claims, "nbf", 0.0), _time(claims, "exp"), user)
        while len(self._kept) > KEPT_MAX:
            del self._kept[next(iter(self._kept))]
        return checked

    async def claims(self, token: str, audience: str) -> dict[str, Any]:
        """Return the claims of a token of this issuer for this audience; its times are not checked. Raises as `find`
        does."""
        if len(token) > TOKEN_MAX:
            raise Unauthorized(f"The token has more than {TOKEN_MAX} characters.")
        claims = await self.keys.claims(token)
        meant = claims.get("aud")
        if claims.get("iss") != self.issuer.url:
            raise Unauthorized("The token is of another issuer.")
        if audience not in (meant if isinstance(meant, list) else [meant]):
            raise Unauthorized("The token is for another audience (aud).")
        if "events" in claims:
            raise Unauthorized("The token tells of an event; it is no access token.")
        _time(claims, "exp")
        return claims

    async def login(self, token: str, client: str, nonce: str) -> tuple[str, Identity]:
        """Return what a login keeps of an ID token, and its user; raises as `find` does."""
        claims = await self.claims(token, client)
        now = self._wall_s()
        if not _time(claims, "nbf", 0.0) - SKEW_S <= now < _time(claims, "exp") + SKEW_S:
            raise Unauthorized("The login took too long: its token has expired, or is not valid yet.")
        if claims.get("azp", client) != client or not secrets.compare_digest(str(claims.get("nonce")), nonce):
            raise Unauthorized("The token of this login was made for another login.")
        kept = orjson.dumps(self.rules.kept(claims)).decode()
        if len(kept) > CLAIMS_MAX:
            raise Forbidden(f"The claims of this user have more than {CLAIMS_MAX} bytes: name fewer in the rules.")
        return kept, self.rules.identity(claims)

    def of_login(self, kept: str) -> Identity | None:
        """Return the user of what a login keeps, by the rules as they are here; None when it has no role any more."""
        if kept not in self._logins:
            try:
                self._logins[kept] = self.rules.identity(orjson.loads(kept))
            except (Forbidden, ValueError, AttributeError):
                return None
            while len(self._logins) > KEPT_MAX:
                del self._logins[next(iter(self._logins))]
        return self._logins[kept] if self._logins[kept].role else None

    def handle(self, kept: str) -> str:
        """Return a text by which this process alone finds the user of a login."""
        return self._inside + urlsafe_b64encode(kept.encode()).decode()

    def is_login(self, credential: str) -> bool:
        """Return whether a credential is a text that `handle` made: a user with a role in the console."""
        return secrets.compare_digest(credential[: len(self._inside)].encode(), self._inside.encode())


def _time(claims: dict[str, Any], name: str, missing: float | None = None) -> float:
    """Return a claim that is a time in s; raises `Unauthorized` when it is none, or missing without a value for it."""
    value = claims.get(name, missing)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Unauthorized(f"The token has no time as {name}.")
    return float(value)
