"""The tokens of `hub login`: a file for each hub in the user's folder of configurations, which only the user reads."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import stat
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from hub.cli import output
from hub.errors import HubError

EARLY_S = 60.0  # a token is refreshed so long before its end
AGAIN_S = 10.0  # after a refresh that failed, while the token still holds


@dataclass
class KeptLogin:
    """The login at a hub: its issuer and client, the token to show, and the token with which to get the next one."""

    url: str
    issuer: str
    client: str
    token: str
    until_s: float
    refresh: str = ""


def path_of(url: str) -> Path:
    """Return the file of the login at a hub."""
    folder = os.environ.get("XDG_CONFIG_HOME", "")
    folder = folder if os.path.isabs(folder) else os.path.expanduser("~/.config")
    return Path(folder, "capacity-hub", "logins", f"{hashlib.sha256(url.rstrip('/').encode()).hexdigest()[:32]}.json")


def find(url: str) -> Callable[[], str] | None:
    """Return a function that returns the token for a hub, refreshed when that is needed; None without a login there.

    It raises `HubError` when the login is over, or cannot be refreshed now.
    """
    return _Renewed(url) if read(url) is not None else None


def read(url: str) -> KeptLogin | None:
    """Return the login at a hub; None without one, and for a file that other users can read or write."""
    path = path_of(url)
    try:
        with path.open("rb") as file:
            facts = os.fstat(file.fileno())
            if facts.st_uid != os.getuid() or stat.S_IMODE(facts.st_mode) & 0o077:
                output.note_once(f"{path} is not used: it must be yours alone (chmod 600).")
                return None
            login = KeptLogin(**orjson.loads(file.read()))
            return login if login.url == url.rstrip("/") else None
    except (OSError, ValueError, TypeError):
        return None


def keep(login: KeptLogin) -> None:
    """Write the login into its file, whole or not at all, readable only by its owner; raises `OSError`."""
    path = path_of(login.url)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(orjson.dumps(asdict(login)))
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def taken(url: str, issuer: str, client: str, answer: dict[str, Any], refresh: str = "") -> KeptLogin:
    """Return the login of an answer of the issuer with tokens; raises `HubError` for another answer."""
    token, life_s = answer.get("access_token"), answer.get("expires_in", 300)
    if not isinstance(token, str) or not token.isascii() or not isinstance(life_s, int | float):
        raise HubError(f"The issuer {issuer} gave no token.")
    until_s = time.time() + life_s
    return KeptLogin(url.rstrip("/"), issuer, client, token, until_s, str(answer.get("refresh_token") or refresh))


class _Renewed:
    """The token for a hub, read from its file, and refreshed before it ends."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._login: KeptLogin | None = None
        self._failed_at = -AGAIN_S

    def __call__(self) -> str:
        if self._login is None or self._is_late(self._login):
            self._login = self._renew()
        return self._login.token

    def _is_late(self, login: KeptLogin) -> bool:
        left_s = login.until_s - time.time()
        return left_s <= 0 or (left_s < EARLY_S and time.monotonic() - self._failed_at >= AGAIN_S)

    def _renew(self) -> KeptLogin:
        """Return the login with a token that holds. Only one command at a time refreshes it: issuers take a token for
        that once."""
        from hub.tokens.oidc.issuer import Issuer  # imported here, because most commands refresh nothing

        over = HubError(f"The login at {self._url} is over; run: hub login")
        with path_of(self._url).with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            login = read(self._url)
            if login is None:
                raise over
            if not self._is_late(login):
                return login
            form = {"grant_type": "refresh_token", "refresh_token": login.refresh, "client_id": login.client}
            try:
                if not login.refresh:
                    raise over
                with ThreadPoolExecutor(1) as pool:  # an event loop may run in this thread
                    asked = pool.submit(asyncio.run, Issuer(login.issuer).post("token_endpoint", form))
                    status, answer = asked.result()
                if status != 200:
                    raise over
                login = taken(login.url, login.issuer, login.client, answer, login.refresh)
                keep(login)
            except HubError:
                if login.until_s <= time.time():
                    raise
                self._failed_at = time.monotonic()
            return login
