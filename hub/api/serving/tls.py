"""TLS of the hub: a certificate that can be replaced while the hub serves, and callers that are known by their own
certificates."""

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
_NAMES_MAX: Final = 10  # names of one certificate; each request looks up all of them


class Certificates:
    """The certificate files that the settings name, loaded into `context`. Reading the files again changes the same
    `context`, for new connections only."""

    def __init__(self, settings: Settings) -> None:
        """Load the files; raises `StartRefused` with one sentence when a file cannot be used."""
        assert settings.tls_cert is not None
        self._cert = settings.tls_cert
        self._key = settings.tls_key or settings.tls_cert
        self._client_ca = settings.tls_client_ca
        self.context = self._made()

    def read_again(self) -> None:
        """Read the files again; when they cannot be used now, log why and keep what was loaded before."""
        try:
            self._made()  # a trial: a key that does not fit its certificate would spoil the context in use
            self._load(self.context)
        except StartRefused as error:
            _log.error("certificate rejected", why=str(error))
            return
        _log.info("certificate loaded", cert=str(self._cert))

    def _made(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self._client_ca:
            context.verify_mode = ssl.CERT_OPTIONAL  # a caller without a certificate has a secret or a token
        self._load(context)
        return context

    def _load(self, context: ssl.SSLContext) -> None:
        with tempfile.NamedTemporaryFile(suffix=".pem") as pair:  # both files as of one moment
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
    """Return the names in a caller's certificate: its common names, then its alternative names, without repeats and at
    most ten."""
    if not certificate:
        return ()
    names = [value for part in certificate.get("subject", ()) for kind, value in part if kind == "commonName"]
    names += [value for kind, value in certificate.get("subjectAltName", ()) if kind in ("DNS", "URI", "email")]
    return tuple(dict.fromkeys(names))[:_NAMES_MAX]


def show(names: Iterable[str], headers: list[tuple[bytes, bytes]], serving: Serving) -> None:
    """Add a secret header to a request without credentials, if the tokens file knows a name in the caller's
    certificate. The header has the secret that stands for this name."""
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
