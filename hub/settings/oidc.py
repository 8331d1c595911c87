"""The settings of logins by OpenID Connect."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from hub.settings.addresses import is_loopback
from hub.settings.knobs import BadSetting, Knob, names_host, read_duration, read_path, read_secret, read_text


def read_address(text: str) -> str:
    """Return an https URL without query as it is written, or an http URL of this machine; raises ValueError."""
    try:
        parts = urlsplit(text)
        usable = names_host(parts.netloc) and "@" not in parts.netloc and parts.port != 0 and "?" not in text
        is_safe = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
    except ValueError:
        usable = is_safe = False
    if not (usable and is_safe) or "#" in text or re.search(r"[^\x21-\x7e]", text):
        raise ValueError("is no https URL without ? and #, such as https://login.example/realms/lab")
    return text


class OidcSettings(BaseSettings):
    """The issuer whose users log in to the console and call the API, and how the hub is known to it."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    oidc_issuer: Annotated[str, Knob("HUB_OIDC_ISSUER", read_address)] = ""
    """The OpenID Connect issuer whose users may log in, written as in its tokens. Unset: none. Needs the extra oidc."""
    oidc_client_id: Annotated[str, Knob("HUB_OIDC_CLIENT_ID", read_text)] = ""
    """The client that the issuer knows the console as, and `hub login` too unless it has one of its own."""
    oidc_client_secret: Annotated[SecretStr | None, Knob("HUB_OIDC_CLIENT_SECRET", read_secret, secret=True)] = None
    """The secret of that client, where the issuer gave it one. Unset: a public client, which PKCE protects."""
    oidc_device_client_id: Annotated[str, Knob("HUB_OIDC_DEVICE_CLIENT_ID", read_text)] = ""
    """The public client of `hub login`. Unset: HUB_OIDC_CLIENT_ID; a client with a secret cannot serve both."""
    oidc_audience: Annotated[str, Knob("HUB_OIDC_AUDIENCE", read_text)] = ""
    """The audience (aud) that access tokens must have. Unset: HUB_OIDC_CLIENT_ID."""
    oidc_scopes: Annotated[str, Knob("HUB_OIDC_SCOPES", read_text)] = "openid profile email offline_access"
    """Scopes that logins ask the issuer for, with openid. Without offline_access some issuers let no login refresh."""
    oidc_rules_file: Annotated[Path | None, Knob("HUB_OIDC_RULES_FILE", read_path)] = None
    """A TOML file of rules that turn claims of the issuer into rights. Needed with HUB_OIDC_ISSUER; read at start."""
    oidc_login_s: Annotated[float, Knob("HUB_OIDC_LOGIN_SECONDS", read_duration, 60, 43_200)] = 28_800.0
    """Longest login by the issuer. Too low: people log in again and again; too high: leavers stay for so long."""
    public_url: Annotated[str, Knob("HUB_PUBLIC_URL", read_address)] = ""
    """The URL by which browsers reach this hub; the issuer must know it with /console/oidc/callback after it."""

    def refuse_oidc_in_part(self) -> None:
        """Raise `BadSetting` when settings of the issuer need others that are not set."""
        needed = {"HUB_OIDC_CLIENT_ID": self.oidc_client_id, "HUB_OIDC_RULES_FILE": self.oidc_rules_file}
        given = [name for name, value in {**needed, "HUB_OIDC_AUDIENCE": self.oidc_audience}.items() if value]
        if self.oidc_issuer and (missing := [name for name, value in needed.items() if not value]):
            raise BadSetting(f"HUB_OIDC_ISSUER is set and {missing[0]} is not: nobody could log in.")
        if given and not self.oidc_issuer:
            raise BadSetting(f"{given[0]} is set and HUB_OIDC_ISSUER is not: no token could be checked.")
