"""The keys of the issuer, and the check of a token's signature by them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import jwt
import orjson

from hub.errors import Unauthorized
from hub.observability.logs import get_logger
from hub.store.cancelling import retrieve_error
from hub.tokens.oidc.issuer import Issuer, IssuerAway

READ_S: Final = 600.0  # the keys are read again after this long, so that a key that was withdrawn is forgotten
ASKED_S: Final = 60.0  # keys that are not known are asked for this often at most
AGAIN_S: Final = 5.0  # the same while no key is known at all, because the issuer was away from the start
KEYS_MAX: Final = 100
KID_MAX: Final = 512
_log = get_logger("hub.tokens")
_JWS: Final = jwt.PyJWS(options={"enforce_minimum_key_length": True})
_RSA: Final = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
_ALGORITHMS: Final = {  # by type and curve of a key; those with a shared secret, and none, are not here
    ("RSA", None): _RSA, ("EC", "P-256"): frozenset({"ES256"}), ("EC", "P-384"): frozenset({"ES384"}),
    ("EC", "P-521"): frozenset({"ES512"}), ("OKP", "Ed25519"): frozenset({"EdDSA"}),
}  # fmt: skip


@dataclass(frozen=True)
class PublicKey:
    """A public key: its id, "" for none, and the algorithms with which it may have signed."""

    kid: str
    algorithms: frozenset[str]
    material: Any


class IssuerKeys:
    """The keys of an issuer, read when they are needed. While the issuer is away, those that are known stay."""

    def __init__(self, issuer: Issuer, clock: Callable[[], float] = time.monotonic) -> None:
        self._issuer, self._clock = issuer, clock
        self._keys: list[PublicKey] = []
        self._raw: list[Any] = []
        self._tried: float | None = None
        self._read = 0.0
        self._trouble: IssuerAway | None = None
        self._reading: asyncio.Task[None] | None = None
        self.generation = 0  # how often the keys have changed

    def keep_fresh(self) -> None:
        """Begin to read the keys again if they are old; the caller need not wait for that."""
        if self._keys and self._clock() - self._read >= READ_S and self._may_ask():
            self._begin()

    async def claims(self, token: str) -> dict[str, Any]:
        """Return the claims of a token that a key of the issuer has signed; nothing else of it is checked.

        Raises `Unauthorized` for any other token, and `IssuerAway` for a key that cannot be asked for.
        """
        try:
            header = jwt.get_unverified_header(token)
        except jwt.PyJWTError:
            raise Unauthorized("The token is no JWT.") from None
        kid, algorithm = header.get("kid", ""), header.get("alg")
        kind = str(header.get("typ", "jwt")).lower().removeprefix("application/")
        # No other header is read: a key or the address of one (jwk, jku, x5c, x5u) that a token brings proves nothing.
        if "crit" in header or "b64" in header or kind not in ("jwt", "at+jwt") or len(kid) > KID_MAX:
            raise Unauthorized("The token has a header that this hub does not take: crit, b64, or another typ.")
        key = await self._find(kid, str(algorithm))
        try:
            claims = orjson.loads(_JWS.decode(token, key.material, algorithms=sorted(key.algorithms)))
        except (jwt.PyJWTError, ValueError, TypeError):
            raise Unauthorized("The signature of the token is not of the issuer's key.") from None
        if not isinstance(claims, dict):
            raise Unauthorized("The token holds no claims.")
        return claims

    async def _find(self, kid: str, algorithm: str) -> PublicKey:
        known = self._known(kid)
        if not known:
            if self._may_ask():
                self._begin()
            if self._reading is not None:
                await asyncio.shield(self._reading)
            known = self._known(kid)
        if not known and self._trouble is not None:
            raise self._trouble
        fitting = [key for key in known if algorithm in key.algorithms]
        if len(fitting) != 1:
            raise Unauthorized("The token is signed with a key or an algorithm that is not the issuer's.")
        return fitting[0]

    def _known(self, kid: str) -> list[PublicKey]:
        return [key for key in self._keys if not kid or key.kid == kid]

    def _may_ask(self) -> bool:
        since = None if self._tried is None else self._clock() - self._tried
        return self._reading is None and (since is None or since >= (ASKED_S if self._raw else AGAIN_S))

    def _begin(self) -> None:
        self._tried = self._clock()
        self._reading = asyncio.create_task(self._ask(), name="keys of the issuer")
        self._reading.add_done_callback(retrieve_error)

    async def _ask(self) -> None:
        try:
            raw = await self._issuer.keys()
            self._read, self._trouble = self._clock(), None
            if raw != self._raw:
                self._raw, self._keys = raw, [key for each in raw[:KEYS_MAX] if (key := _key(each)) is not None]
                self.generation += 1
        except IssuerAway as error:
            self._trouble = error
            _log.warning("keys of the issuer not read", why=error.detail)
        finally:
            self._reading = None

    async def close(self) -> None:
        """End a read that is under way."""
        if (reading := self._reading) is not None:
            reading.cancel()
            await asyncio.wait([reading])


def _key(raw: Any) -> PublicKey | None:
    """Return a key from its JWK; None for one that is not for signatures, is secret or cannot be read."""
    try:
        kid, curve = raw.get("kid", ""), raw.get("crv")
        algorithms = _ALGORITHMS.get((raw.get("kty"), curve), frozenset())
        if "alg" in raw:
            algorithms &= {raw["alg"]}
        if not algorithms or raw.get("use", "sig") != "sig" or "verify" not in raw.get("key_ops", ["verify"]):
            return None
        public = {name: value for name, value in raw.items() if name in ("kty", "crv", "n", "e", "x", "y")}
        material = jwt.PyJWK(public, min(algorithms)).key
        return PublicKey(kid, algorithms, material) if isinstance(kid, str) and len(kid) <= KID_MAX else None
    except (jwt.PyJWTError, AttributeError, TypeError, ValueError):
        return None
