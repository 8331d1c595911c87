"""Heartbeats are answered by the short way or by the ordinary one, with the same answer.

`HUB_FUZZ_REQUESTS=100000` for the full length.
"""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest

from hub.api.app import create_app
from hub.api.serving import heartbeats, protocol
from tests.api.roads import Ordinary, Road, Shortcut
from tests.world import settings_for

REQUESTS = int(os.environ.get("HUB_FUZZ_REQUESTS", "1500"))
SET = {"runner_secret": "runner-s3", "node_secret": "node-s3"}
HOST = "127.0.0.1:8080"
HOSTS = [HOST] * 12 + ["localhost", "[::1]:80", "evil.example", "", "a b", "\xff", "127.0.0.1.evil.example"]
PATHS = ["/node/heartbeat"] * 14 + [
    "/api/v1/node/heartbeat", "/node/heartbeat/", "/node/heartbeat?x=1", "/node/heartbea%74", "//node/heartbeat",
    "http://evil.example/node/heartbeat", "/nothing", "/node/heartbeats", "/session/borrow",
]  # fmt: skip
METHODS = ["POST"] * 16 + ["GET", "HEAD", "PUT", "BREW", "post", "CONNECT", "OPTIONS"]
SECRETS = ["node-s3"] * 8 + ["wrong", "", "runner-s3", "\xff", None]
BODIES = [b'{"nodeId":"n1"}'] * 8 + [
    b'{"nodeId":"n1","version":3}', b'{"NodeId":"n1","recycled":["s1"]}', b'{"nodeId":"stranger"}', b"", b"{}", b"[]",
    b"null", b"{", b'{"nodeId":7}', b'{"nodeId":"\xff"}', b'{"nodeId":"n1","version":-1}', b'{"nodeId":"\\u0000"}',
    b'{"nodeId":"' + b"x" * 600 + b'"}', b'{"nodeId":"n1","x":"' + b"y" * 9_000 + b'"}', b" " * 70_000,
    b'{"nodeId":"n1","recycled":' + b'["s"]' * 3 + b"}",
]  # fmt: skip
EXTRAS = [
    "connection: close", "connection: keep-alive", "connection: upgrade\r\nupgrade: h2c", "upgrade: h2c",
    "connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMA", "expect: 100-continue",
    "connection: upgrade\r\nupgrade: websocket", "content-type: text/plain", "content-type: application/json",
    "origin: http://evil.example", f"origin: http://{HOST}", "sec-fetch-site: cross-site", "origin: null",
    "sec-fetch-site: same-origin", "user-agent: Mozilla/5.0", "user-agent: curl/8", "cookie: a=b", "referer: http://x/",
    f"host: {HOST}", "host: evil.example", "x-forwarded-for: 10.0.0.1", "x-forwarded-host: evil.example", "x: \xe9",
    "authorization: Bearer nonsense", "bad header", " folded: x", "x-hub-secret: wrong", "accept-encoding: gzip",
]  # fmt: skip


def request(dice: random.Random) -> bytes:
    """Return a request that is mostly a heartbeat, and mostly has something odd about it."""
    body = dice.choice(BODIES)
    if dice.random() < 0.4:
        more = dice.choice(["", "", "", f"{dice.choice(EXTRAS)}\r\n"])
        head = f"POST /node/heartbeat HTTP/1.1\r\nhost: {HOST}\r\nx-hub-secret: node-s3\r\n{more}"
        return f"{head}content-length: {len(body)}\r\n\r\n".encode("latin-1") + body
    lines = [f"{dice.choice(METHODS)} {dice.choice(PATHS)} HTTP/{dice.choice(['1.1'] * 12 + ['1.0', '2.0'])}"]
    headers = [f"host: {dice.choice(HOSTS)}"] if dice.random() < 0.95 else []
    if (secret := dice.choice(SECRETS)) is not None:
        headers.append(f"x-hub-secret: {secret}")
    headers += dice.sample(EXTRAS, dice.choice([0, 0, 0, 0, 1, 1, 1, 2, 3]))
    if dice.random() < 0.12:
        headers.append("transfer-encoding: chunked")
        cut = dice.randrange(len(body) + 1)
        parts = [part for part in (body[:cut], body[cut:]) if part]
        trailer = b"x-hub-secret: node-s3\r\n" * (dice.random() < 0.3)
        body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n" + trailer + b"\r\n"
    elif body or dice.random() < 0.5:
        headers.append(f"content-length: {len(body) + dice.choice([0] * 20 + [1, -1, 5])}")
    dice.shuffle(headers)
    text = "\r\n".join([*lines, *headers, "", ""]).encode("latin-1") + body
    if dice.random() < 0.05:  # a byte that is another
        at = dice.randrange(len(text))
        text = text[:at] + bytes([dice.randrange(256)]) + text[at + 1 :]
    return text


def pieces(dice: random.Random, text: bytes) -> list[bytes]:
    """In one piece mostly, else in some."""
    if dice.random() < 0.6:
        return [text]
    cuts = sorted(dice.randrange(len(text) + 1) for _ in range(dice.choice([1, 1, 2, 5])))
    return [part for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True) if (part := text[a:b])]


@pytest.mark.parametrize("secrets", [{}, SET], ids=["open", "closed"])
async def test_the_fast_path_and_the_ordinary_path_give_the_same_answers(redis_server, monkeypatch, secrets):
    app = create_app(settings_for(redis_server.url, **secrets), sweep=False)
    monkeypatch.setattr(protocol.HubProtocol, "all_open", protocol.Connections())
    taken, real = Counter(), heartbeats.take

    def noted(serving, cycle, give_up):
        taken["taken"] += (found := real(serving, cycle, give_up))
        return found

    monkeypatch.setattr(heartbeats, "take", noted)
    async with app.app.router.lifespan_context(app.app):
        serving = app.app.state.serving
        app._gate = serving.gate  # as of a hub that serves others
        monkeypatch.setattr(Shortcut, "serving", serving)
        monkeypatch.setattr(Shortcut, "known_hosts", serving.gate.known)
        serving.gate.known.add(HOST.encode())
        roads = {kind: Road(app, kind) for kind in (Ordinary, Shortcut)}
        seen: Counter[bytes] = Counter()
        sent = number = 0
        while sent < REQUESTS / 2:
            number += 1
            dice = random.Random(number)
            count = dice.choice([1, 1, 1, 2, 4])
            given = pieces(dice, b"".join(request(dice) for _ in range(count)))
            sent += count
            ordinary, shortcut = [await roads[kind].exchange(given) for kind in (Ordinary, Shortcut)]
            assert shortcut == ordinary, (number, given)
            seen.update(answer[0].split()[1] for answer in ordinary[0])
    assert taken["taken"] > sent / 10, "the short way was hardly taken"
    assert seen.keys() >= {b"200", b"400", b"404", b"405", b"413"} | ({b"401"} if secrets else {b"403", b"415"}), seen
