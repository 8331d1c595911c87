"""The issuer over HTTP: its documents and its endpoints, with bounds on sizes and times. No tokens are checked here."""

from __future__ import annotations

import asyncio
import time
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import httpx
import orjson

from hub.errors import Unauthorized, Unavailable
from hub.outgoing import async_client
from hub.settings.oidc import read_address

ANSWER_S: Final = 5.0  # for a whole answer of the issuer
ANSWER_MAX: Final = 262_144  # bytes of an answer
DISCOVERED_S: Final = 3600.0  # its document is read again after this long
AGAIN_S: Final = 5.0  # an issuer that was away is asked for its document again after this long


class IssuerAway(Unavailable):
    """The issuer does not answer, or not as an issuer does, so a login or a key that is not known cannot be checked."""

    retry_after_s = 5.0


class TokenOver(Unauthorized):
    """The refusal of a token of the issuer that has ended, or not begun: its caller has guessed nothing."""


class Issuer:
    """The issuer and its endpoints."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._found: Mapping[str, Any] = {}
        self._read_at = self._failed_at = -DISCOVERED_S
        self._reading = asyncio.Lock()

    async def endpoint(self, name: str) -> str:
        """Return an address from the issuer's document; raises `IssuerAway`, also when the issuer has no such one."""
        await self._discover()
        try:
            return read_address(str(self._found.get(name, "")).partition("?")[0]) and str(self._found[name])
        except ValueError:
            raise IssuerAway(f"The issuer {self.url} names no usable {name}.") from None

    async def keys(self) -> list[Any]:
        """Return the keys of the issuer, each as it is; raises `IssuerAway`."""
        keys = (await self._ask("GET", await self.endpoint("jwks_uri")))[1].get("keys")
        if not isinstance(keys, list):
            raise IssuerAway(f"The issuer {self.url} shows no keys.")
        return keys

    async def post(self, name: str, form: Mapping[str, str], secret: str = "") -> tuple[int, dict[str, Any]]:
        """Send a form to an endpoint, with the secret of the client, and return status and answer; raises
        `IssuerAway`."""
        url, headers = await self.endpoint(name), {}
        ways = self._found.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        if secret and "client_secret_basic" in ways:
            pair = f"{quote(form['client_id'], safe='')}:{quote(secret, safe='')}"
            headers["authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        elif secret:
            form = {**form, "client_secret": secret}
        return await self._ask("POST", url, data=dict(form), headers=headers)

    async def _discover(self) -> None:
        """Read the issuer's document when it was read long ago; while the issuer is away the old one holds."""
        async with self._reading:
            now = time.monotonic()
            if now - self._read_at < DISCOVERED_S or (self._found and now - self._failed_at < AGAIN_S):
                return
            if now - self._failed_at < AGAIN_S:
                raise IssuerAway(f"The issuer {self.url} did not answer just now.")
            url = f"{self.url.rstrip('/')}/.well-known/openid-configuration"
            try:
                status, found = await self._ask("GET", url)
                if status != 200 or found.get("issuer") != self.url:
                    raise IssuerAway(f"The document at {url} is not that of the issuer {self.url}.")
                self._found, self._read_at = found, now
            except IssuerAway:
                self._failed_at = time.monotonic()
                if not self._found:
                    raise

    async def _ask(self, method: str, url: str, **options: Any) -> tuple[int, dict[str, Any]]:
        """Return the status and the JSON object of an answer; raises `IssuerAway` for any other answer and for none."""
        options["headers"] = {"accept": "application/json", "accept-encoding": "identity", **options.get("headers", {})}
        try:
            async with (
                asyncio.timeout(ANSWER_S),
                async_client(url, timeout=ANSWER_S) as client,
                client.stream(method, url, **options) as answer,
            ):
                text = b""
                async for part in answer.aiter_raw():
                    text += part
                    if len(text) > ANSWER_MAX:
                        raise IssuerAway(f"The issuer {self.url} answered with more than {ANSWER_MAX} bytes.")
            found = orjson.loads(text)
        except (TimeoutError, httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise IssuerAway(f"The issuer {self.url} does not answer ({type(error).__name__}).") from None
        except orjson.JSONDecodeError:
            found = None
        if not isinstance(found, dict) or answer.status_code >= 500 or answer.is_redirect:
            raise IssuerAway(f"The issuer {self.url} answered {answer.status_code} and nothing to go by.")
        return answer.status_code, found
