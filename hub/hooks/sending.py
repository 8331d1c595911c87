"""The sending of one message to a hook: to an address that was checked, signed, without redirects and proxies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from functools import cache
from ssl import SSLContext
from typing import NamedTuple

import httpx

from hub.hooks.addresses import BadAddress, addresses_of
from hub.hooks.messages import body_of, message_id, signature
from hub.outgoing import async_client

TIMEOUT_S = 5.0  # for one message, from looking up the name to the head of the answer
ADDRESSES = 3  # addresses of a host that are tried


class Target(NamedTuple):
    """Where the messages of a hook go, their format, and the secret that signs them."""

    url: str
    format: str
    secret: str


async def send(target: Target, kind: str, event_id: str, facts: Mapping[str, str], allowed: Collection[str]) -> str:
    """Send a message once; return `ok`, or in some words what came of it. `allowed` are hosts with any address."""
    body, content_type = body_of(kind, event_id, facts, target.format)
    name, now = message_id(kind, event_id), int(time.time())
    headers = {
        "content-type": content_type, "user-agent": "capacity-hub", "webhook-id": name, "webhook-timestamp": str(now),
        "webhook-signature": signature(target.secret, name, now, body),
    }  # fmt: skip
    url = httpx.URL(target.url)
    headers["host"] = url.netloc.decode()
    try:
        async with asyncio.timeout(TIMEOUT_S):
            found = await addresses_of(url, allowed)
            return await _post(url, found[:ADDRESSES], headers, body)
    except BadAddress as error:
        return f"its URL {error}"
    except TimeoutError:
        return f"it did not answer within {TIMEOUT_S:g} s"
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:  # the text may hold the address
        return f"it does not answer ({type(error).__name__})"


async def _post(url: httpx.URL, addresses: list[str], headers: dict[str, str], body: bytes) -> str:
    """Post to the first address that takes a connection. The address is that of the check, not looked up again."""
    verify = _certificates() if url.scheme == "https" else False
    host = {"sni_hostname": url.raw_host.decode()}  # certificates are checked against it, too
    async with async_client(str(url), proxy=None, verify=verify, timeout=TIMEOUT_S) as client:
        for left in range(len(addresses) - 1, -1, -1):
            there = url.copy_with(host=addresses[~left])
            try:
                # The body of the answer is not read: it may be compressed, and it may have no end.
                async with client.stream("POST", there, content=body, headers=headers, extensions=host) as answer:
                    return "ok" if answer.is_success else f"it answered {answer.status_code}"
            except httpx.ConnectError:
                if not left:
                    raise
    return "it has no address"


@cache
def _certificates() -> SSLContext:
    return httpx.create_ssl_context()  # once: reading them takes longer than a call
