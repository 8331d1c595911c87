"""`hub login` and `hub logout`: a login at the issuer of a hub by a code that is entered in a browser (RFC 8628)."""

from __future__ import annotations

import asyncio
import time
from typing import Any
from urllib.parse import urlsplit

from hub.cli import kept_logins, output
from hub.cli.answers import CommandAnswer
from hub.cli.command import command
from hub.cli.connection import Address, HubApi, over_http
from hub.client.calls import NEUTRAL
from hub.client.exchange import RetryPolicy, Send, exchange
from hub.errors import Forbidden, HubError, NotFound, Unauthorized
from hub.tokens.oidc.issuer import Issuer, IssuerAway

_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_WAIT_S, _SLOWER_S, _LIFE_S = 5.0, 5.0, 600.0  # as RFC 8628 has them where the issuer does not say
_LEAST_S = 0.1
_ENDED = {"access_denied": "was refused in the browser", "expired_token": "took too long"}


@command("nobody")
async def login(at: Address) -> CommandAnswer:
    """Log in at the issuer of the hub: open the address that is printed in any browser, and enter the code.

    The token is kept in a file that only you can read. Commands show it where neither HUB_TOKEN nor a secret is set.
    """
    root = at.url.partition("/realms/")[0]
    try:
        async with HubApi(Address(at.url, "", chosen=True)) as hub:
            about = await hub.get("oidc")
    except NotFound as error:
        raise HubError(error.detail) from None
    issuer, client = Issuer(str(about["issuer"])), str(about["clientId"])
    asked = {"client_id": client, "scope": " ".join(about["scopes"])}
    if about.get("audience"):
        asked["audience"] = about["audience"]
    status, begun = await issuer.post("device_authorization_endpoint", asked)
    place = str(begun.get("verification_uri_complete") or begun.get("verification_uri", ""))
    if status != 200 or urlsplit(place).scheme not in ("https", "http") or "device_code" not in begun:
        raise HubError(f"The issuer {issuer.url} begins no login for {client} ({begun.get('error', status)}).")
    output.note(f"open {place} and check or enter the code {begun.get('user_code')}")
    kept = kept_logins.taken(root, issuer.url, client, await _wait(issuer, client, begun))
    await _check(at.url, kept.token)
    kept_logins.keep(kept)
    return CommandAnswer({"url": root, "issuer": issuer.url}, f"You are logged in at {root}.")


async def _wait(issuer: Issuer, client: str, begun: dict[str, Any]) -> dict[str, Any]:
    """Ask for the token until the login is over in the browser, at the pace that the issuer wants; raises
    `HubError`."""
    pause_s = max(_LEAST_S, _number(begun.get("interval"), _WAIT_S))
    until_s = time.monotonic() + _number(begun.get("expires_in"), _LIFE_S)
    form = {"grant_type": _GRANT, "device_code": str(begun["device_code"]), "client_id": client}
    error = "expired_token"
    while time.monotonic() < until_s:
        await asyncio.sleep(pause_s)
        try:
            status, answer = await issuer.post("token_endpoint", form)
        except IssuerAway:
            pause_s += _SLOWER_S
            continue
        if status == 200:
            return answer
        error = str(answer.get("error"))
        if error == "slow_down":
            pause_s += _SLOWER_S
        elif error != "authorization_pending":
            break
    raise HubError(f"The login {_ENDED.get(error, f'failed: the issuer answered {error[:80]!r}')}.")


def _number(value: Any, otherwise: float) -> float:
    return max(0.0, float(value)) if isinstance(value, int | float) else otherwise


async def _check(url: str, token: str) -> None:
    """Show the token to the hub once, so that a user without rights hears of it now; raises `HubError`."""
    async with over_http(Address(url, "", chosen=True)) as transport:
        headers = {**NEUTRAL, "authorization": f"Bearer {token}"}
        try:
            await transport.run(exchange(Send("GET", "/console/me", headers=headers), RetryPolicy(5.0, 10.0)))
        except (Unauthorized, Forbidden) as error:
            raise HubError(f"You are logged in, but not for this hub: {error.detail or error.code}") from None
        except NotFound:
            return  # a hub without a console; the next call shows it


@command("nobody")
async def logout(at: Address) -> CommandAnswer:
    """Forget the login at the hub: its file is removed. At the issuer itself you stay logged in."""
    path = kept_logins.path_of(at.url.partition("/realms/")[0])
    known = path.exists()
    path.unlink(missing_ok=True)
    return CommandAnswer({"ended": known}, "You are logged out." if known else "There was no login at this hub.")
