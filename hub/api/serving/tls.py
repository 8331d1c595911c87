"""TLS as the hub serves it: a certificate that may be replaced while it does, and callers known by theirs."""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from hub.api.handling.context import Serving
from hub.errors import StartRefused
from hub.observability.logs import get_logger
from hub.settings import Settings
from hub.tokens.certificates import secret_of
from hub.tokens.secrets import HEADER

_log = get_logger("hub.serve")
_CREDENTIALS: Final = (HEADER.encode(), b"authorization")
_NAMES_MAX: Final = 10  # of one certificate; each costs a request a look-up


class Certificates:
    """The files that the settings name. `context` stays the same one: what is read again is for new connections."""

    def __init__(self, settings: Settings) -> None:
        """Raises `StartRefused` in one sentence when a file cannot be used."""
        assert settings.tls_cert is not None
        self._cert = settings.tls_cert
        self._key = settings.tls_key or settings.tls_cert
        self._client_ca = settings.tls_client_ca
        self.context = self._made()

    def read_again(self) -> None:
        """Read the files again; when they cannot be used now, what was read before stays in force."""
        try:
            self._made()  # a key that does not belong to its certificate would spoil the context in use
            self._load(self.context)
        except StartRefused as error:
            _log.error("certificate rejected", why=str(error))
            return
        _log.info("certificate loaded", cert=str(self._cert))

    def _made(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self._client_ca:
            context.verify_mode = ssl.CERT_OPTIONAL  # a caller without one has a secret or a token
        self._load(context)
        return context

    def _load(self, context: ssl.SSLContext) -> None:
        with tempfile.NamedTemporaryFile(suffix=".pem") as pair:  # one moment of two files that are being replaced
            pair.write(_contents("HUB_TLS_CERT", self._cert))
            if self._key != self._cert:
                pair.write(b"\n" + _contents("HUB_TLS_KEY", self._key))
            pair.flush()
            try:
                context.load_cert_chain(pair.name, password=_no_password)
            except (OSError, ValueError) as error:
                raise StartRefused(
                    f"HUB_TLS_CERT={self._cert} with HUB_TLS_KEY={self._key} cannot be used: {_why(error)}."
                ) from None
        if self._client_ca:
            authorities = _contents("HUB_TLS_CLIENT_CA", self._client_ca)
            try:
                context.load_verify_locations(cadata=authorities.decode("ascii", "replace"))
            except (OSError, ValueError) as error:
                raise StartRefused(f"HUB_TLS_CLIENT_CA={self._client_ca} cannot be used: {_why(error)}.") from None


def names_in(certificate: Any) -> tuple[str, ...]:
    """The names in a certificate that a caller has shown: of what it is, then its alternative ones."""
    if not certificate:
        return ()
    names = [value for part in certificate.get("subject", ()) for kind, value in part if kind == "commonName"]
    names += [value for kind, value in certificate.get("subjectAltName", ()) if kind in ("DNS", "URI", "email")]
    return tuple(dict.fromkeys(names))[:_NAMES_MAX]


def show(names: Iterable[str], headers: list[tuple[bytes, bytes]], serving: Serving) -> None:
    """Give a request without credentials those of its caller's certificate, if it is one the tokens file knows."""
    if any(name in _CREDENTIALS for name, _ in headers):
        return
    for secret in map(secret_of, names):
        if serving.holders.file.resolve(secret):
            headers.append((_CREDENTIALS[0], secret.encode()))
            return


def _contents(name: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise StartRefused(f"{name}={path} cannot be read: {error.strerror or type(error).__name__}.") from None


def _no_password() -> str:
    raise ValueError("the key is encrypted, and nobody is there to be asked for its password")


def _why(error: Exception) -> str:
    return getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
