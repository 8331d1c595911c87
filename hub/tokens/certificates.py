"""Certificates in the place of tokens: an entry of the tokens file may name one instead of a secret.

A client that proved in the TLS handshake to be that name is given a secret which nobody else can know, in this process
alone; from there on it is as the holder of a token.
"""

from __future__ import annotations

import hmac
import secrets
from typing import Final

_KEY: Final = secrets.token_bytes(32)


def secret_of(name: str) -> str:
    """Return the secret that stands for a certificate of this name in this process."""
    return f"certificate.{hmac.digest(_KEY, name.encode('utf-8', 'surrogateescape'), 'sha256').hex()}"
