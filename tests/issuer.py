"""An OpenID Connect issuer for tests: a small application that answers over HTTP, on a port of its own."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import html
import json
import secrets
import threading
import time
from collections import Counter
from typing import Any, Self
from urllib.parse import parse_qs, parse_qsl, urlencode

import jwt
import uvicorn
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from tests.world import free_port, wait_until

CLIENT, AUDIENCE = "hub-client", "hub-api"
Form = dict[str, str]


class Signer:
    """A key pair of the issuer, and the JWK by which it shows the public half."""

    def __init__(self, kid: str, kind: str = "RSA") -> None:
        self.kid, self.kind = kid, kind
        self.algorithm = "RS256" if kind == "RSA" else "ES256"
        self.private: Any = (
            rsa.generate_private_key(public_exponent=65537, key_size=2048)
            if kind == "RSA"
            else ec.generate_private_key(ec.SECP256R1())
        )

    @property
    def jwk(self) -> dict[str, Any]:
        algorithm = jwt.get_algorithm_by_name(self.algorithm)
        found = algorithm.to_jwk(self.private.public_key(), as_dict=True)
        return {**{name: each for name, each in found.items() if name != "key_ops"}, "kid": self.kid, "use": "sig"}


class Issuer:
    """The issuer. Tests change its members: `keys`, `user` (the claims of who logs in), `hangs`, `jwks` and so on."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        """With `localhost` as host it is another site for a browser than a hub at 127.0.0.1."""
        self.port = free_port()
        self.url = f"http://{host}:{self.port}"
        self.keys = [Signer("k1")]
        self.user: dict[str, Any] = {"sub": "u-1", "preferred_username": "ann", "groups": ["ml"]}
        self.asked: Counter[str] = Counter()
        self.forms: list[Form] = []
        self.jwks: Any = None  # what is shown in place of its keys
        self.hangs = False
        self.secret = ""
        self.codes: dict[str, Form] = {}
        self.device_answers: list[str] = []  # errors that the next polls of a device get, in order
        self.refreshes: set[str] = set()
        self.life_s = 3600.0
        self.redirect_error = ""
        self.asks = False  # whether a page of it asks the user, instead of sending the browser back at once
        self._server: uvicorn.Server | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Answer from now on."""
        config = uvicorn.Config(
            self._app, interface="asgi3", host="127.0.0.1", port=self.port, log_level="error", lifespan="off"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        wait_until(lambda: self._server is not None and self._server.started)

    def stop(self) -> None:
        """Be away from now on."""
        if self._server is not None:
            self.hangs = False
            self._server.should_exit = self._server.force_exit = True
            self._thread.join()
            self._server = None

    def token(self, signer: Signer | None = None, headers: dict[str, Any] | None = None, **claims: Any) -> str:
        """Return an access token of the issuer's user; a claim of None is left out."""
        signer, now = signer or self.keys[-1], time.time()
        said = {"iss": self.url, "aud": AUDIENCE, "exp": now + self.life_s, "iat": now, **self.user, **claims}
        said = {name: value for name, value in said.items() if value is not None}
        return jwt.encode(said, signer.private, signer.algorithm, headers={"kid": signer.kid, **(headers or {})})

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        path = scope["path"]
        self.asked[path] += 1
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        while self.hangs:  # noqa: ASYNC110 - set by a test, in another thread
            await asyncio.sleep(0.02)
        query = dict(parse_qsl(scope["query_string"].decode()))
        form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        if path == "/authorize":
            await self._redirect(query, send)
            return
        status, found = self._answer(path, form, headers)
        text = found if isinstance(found, bytes) else json.dumps(found).encode()
        await send(
            {"type": "http.response.start", "status": status, "headers": [(b"content-type", b"application/json")]}
        )
        await send({"type": "http.response.body", "body": text})

    def _answer(self, path: str, form: Form, headers: dict[str, str]) -> tuple[int, Any]:
        match path:
            case "/.well-known/openid-configuration":
                return 200, {
                    "issuer": self.url, "jwks_uri": f"{self.url}/keys", "token_endpoint": f"{self.url}/token",
                    "authorization_endpoint": f"{self.url}/authorize",
                    "device_authorization_endpoint": f"{self.url}/device",
                }  # fmt: skip
            case "/keys":
                return 200, self.jwks if self.jwks is not None else {"keys": [key.jwk for key in self.keys]}
            case "/device":
                self.forms.append(form)
                return 200, {
                    "device_code": "d-1", "user_code": "ABCD-EFGH", "verification_uri": f"{self.url}/activate",
                    "expires_in": 60, "interval": 0,
                }  # fmt: skip
            case "/token":
                self.forms.append(form)
                return self._tokens(form, headers)
        return 404, {}

    def _tokens(self, form: Form, headers: dict[str, str]) -> tuple[int, Any]:
        basic = base64.b64encode(f"{CLIENT}:{self.secret}".encode()).decode()
        if self.secret and headers.get("authorization") != f"Basic {basic}":
            return 401, {"error": "invalid_client"}
        match form.get("grant_type"):
            case "authorization_code":
                begun = self.codes.pop(form["code"], None)
                challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest())
                if (
                    begun is None
                    or begun["redirect_uri"] != form["redirect_uri"]
                    or begun["code_challenge"] != challenge.rstrip(b"=").decode()
                ):
                    return 400, {"error": "invalid_grant"}
                return 200, self._bundle(nonce=begun["nonce"])
            case "urn:ietf:params:oauth:grant-type:device_code":
                if self.device_answers:
                    return 400, {"error": self.device_answers.pop(0)}
                return 200, self._bundle()
            case "refresh_token" if form["refresh_token"] in self.refreshes:
                self.refreshes.remove(form["refresh_token"])  # good once, as issuers that rotate have it
                return 200, self._bundle()
        return 400, {"error": "invalid_grant"}

    def _bundle(self, **claims: Any) -> dict[str, Any]:
        refresh = secrets.token_hex(8)
        self.refreshes.add(refresh)
        return {
            "access_token": self.token(), "token_type": "Bearer", "expires_in": self.life_s,
            "refresh_token": refresh, "id_token": self.token(aud=CLIENT, **claims),
        }  # fmt: skip

    async def _redirect(self, query: Form, send: Any) -> None:
        """Log the user in without a question, and send the browser back."""
        code = secrets.token_hex(8)
        self.codes[code] = query
        back = {"error": self.redirect_error} if self.redirect_error else {"code": code}
        place = f"{query['redirect_uri']}?{urlencode({**back, 'state': query['state']})}"
        page = f'<title>Issuer</title><a href="{html.escape(place)}">Go on as ann</a>'.encode() if self.asks else b""
        headers = [(b"content-type", b"text/html")] if page else [(b"location", place.encode())]
        await send({"type": "http.response.start", "status": 200 if page else 303, "headers": headers})
        await send({"type": "http.response.body", "body": page})
