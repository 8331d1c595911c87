"""Client certificates as credentials: an entry of the tokens file may name a certificate instead of a secret.

For each name of a certificate this process has a secret that no caller can know. A client that proved the name in the
TLS handshake is treated as if it had sent that secret, so it is the holder of the entry's token.
"""

from __future__ import annotations

import hmac
import secrets
from typing import Final

_KEY: Final = secrets.token_bytes(32)


def secret_of(name: str) -> str:
    """Return a secret for client certificates of this name: a client that shows one counts as if it had sent this
    secret. It is different in each process."""
    return f"certificate.{hmac.digest(_KEY, name.encode('utf-8', 'surrogateescape'), 'sha256').hex()}"
