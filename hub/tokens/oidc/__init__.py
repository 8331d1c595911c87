"""Users of an OpenID Connect issuer: its keys and tokens, and the rules that give its users their rights."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hub.errors import StartRefused
from hub.settings import Settings

if TYPE_CHECKING:
    from hub.tokens.oidc.users import OidcUsers


def oidc_users(settings: Settings, wall_s: Callable[[], float]) -> OidcUsers | None:
    """Return the users of the issuer of the settings, None without one; raises `StartRefused`. `wall_s` returns the
    time on the clock of Redis."""
    if not settings.oidc_issuer:
        return None
    try:
        from hub.tokens.oidc.users import OidcUsers  # imported only where it is set up: the extra may be missing
    except ModuleNotFoundError as error:
        raise StartRefused(
            f"HUB_OIDC_ISSUER needs {error.name}, which is not installed: pip install 'capacity-hub[oidc]'."
        ) from None
    return OidcUsers(settings, wall_s)
