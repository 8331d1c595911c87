"""A hub in a process of its own: its log, its end, callers that go away, and HTTP that is unusual."""

from __future__ import annotations

import json
import re
import signal
import socket

import httpx
import pytest

from tests.world import PATIENCE_S, HubProcess, eventually, wait_until

LINE = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (DEBUG|INFO |WARNING|ERROR) \S.*$")


@pytest.fixture(scope="module")
def live(_server):
    """A hub with secrets and short timeouts, for the whole module; every test uses labels of its own."""
    with HubProcess({"HUB_REDIS_URL": _server.url, "HUB_KEY_PREFIX": "live:"}) as process:
        yield process


def post(hub, role, path, body, **more):
    secret = {"runner": hub.runner_secret, "node": hub.node_secret, "admin": hub.admin_secret}[role]
    headers = {"x-hub-secret": secret, **more}
    return httpx.post(hub.url + path, content=json.dumps(body), headers=headers, timeout=PATIENCE_S)


def get(hub, path):
    return httpx.get(hub.url + path, timeout=PATIENCE_S)


def pass_turns(hub):
    """Return once the hub's event loop has handled everything that it was sent before."""
    for _ in range(5):
        assert get(hub, "/health/live").status_code == 200


def offer(hub, node, **pools):
    slots = [{"labelKey": label, "slotId": slot} for label, ids in pools.items() for slot in ids]
    answer = post(hub, "node", "/node/register", {"nodeId": node, "slots": slots})
    assert answer.status_code == 200, answer.text


def facts_of(log, event):
    """Return the key=value facts of every line of an event."""
    lines = [line for line in log.splitlines() if f" {event}" in line]
    return [dict(re.findall(r"(\w+)=(\S+)", line)) for line in lines]


def test_each_sweeper_logs_one_summary_line_per_interval_with_its_numbers(start_hub):
    calm = start_hub(HUB_KEY_PREFIX="calm:")
    for service in ("node sweep", "lease sweep"):
        wait_until(lambda name=service: facts_of(calm.log(), f"{name} "), why=calm.log)
        first = facts_of(calm.log(), f"{service} ")[0]
        assert (first["scanned"], first["expired"], first["errors"]) == ("0", "0", "0")
        assert 0 <= float(first["elapsed_ms"]) < 1000 * PATIENCE_S
        # Each further pass, in which nothing happens, has its line as well.
        wait_until(lambda name=service: len(facts_of(calm.log(), f"{name} ")) >= 4, why=calm.log)
        for line in facts_of(calm.log(), f"{service} "):
            assert (line["scanned"], line["expired"], line["errors"]) == ("0", "0", "0")
            assert "elapsed_ms" in line


def test_a_silent_node_is_expired_and_the_log_and_the_metrics_tell_of_it(live):
    def told():
        return [line for line in facts_of(live.log(), "node expired") if line["node"] == "mute"]

    offer(live, "mute", **{"quiet:one": ["q1", "q2"]})
    assert post(live, "runner", "/session/borrow", {"labelKey": "quiet:one"}).status_code == 200
    live.redis.delete("live:node_alive:mute")  # which a registration writes for 90 s
    wait_until(told, why=live.log)
    (said,) = told()
    assert (said["slots"], said["ended"]) == ("2", "1")
    pruned = {"list": "live:inuse:quiet:one", "node": "mute", "slot": "q1"}
    wait_until(lambda: pruned in facts_of(live.log(), "lent slot removed with its node"), why=live.log)
    wait_until(lambda: any(line["expired"] != "0" for line in facts_of(live.log(), "node sweep ")), why=live.log)
    text = get(live, "/metrics").text
    assert re.search(r"hub_nodes_expired_total [1-9]", text)
    assert re.search(r'hub_sweeps_total\{service="node"\} [1-9]', text)
    assert re.search(r'hub_sweep_errors_total\{service="node"\} 0\.0', text)


def test_a_lease_that_is_not_renewed_ends_by_itself(live):
    offer(live, "lender", **{"lapse:one": ["l1"]})
    taken = post(live, "runner", "/session/borrow", {"labelKey": "lapse:one", "ttlSeconds": 0.5})
    assert taken.json()["ttlSeconds"] == 0.5

    def back():
        post(live, "node", "/node/heartbeat", {"nodeId": "lender"})
        return any(line["slot"] == "l1" and line["why"] == "lapsed" for line in facts_of(live.log(), "lease ended"))

    wait_until(back, why=live.log)
    assert post(live, "runner", "/session/borrow", {"labelKey": "lapse:one"}).json()["browserId"] == "l1"


def test_every_line_of_the_log_has_a_time_a_level_and_no_secret(live):
    wait_until(lambda: len(live.log().splitlines()) > 3, why=live.log)
    lines = live.log().splitlines()
    assert [line for line in lines if not LINE.match(line)] == []
    for secret in (live.runner_secret, live.node_secret, live.admin_secret):
        assert secret not in live.log()


def test_a_lease_whose_caller_hung_up_is_undone(live):
    offer(live, "n-gone", **{"gone:one": ["g1"]})
    redis = live.redis
    body = json.dumps({"labelKey": "gone:one"}).encode()
    head = f"POST /session/borrow HTTP/1.1\r\nhost: x\r\nx-hub-secret: {live.runner_secret}\r\n"
    redis.client_pause(60_000, all=False)
    with socket.create_connection(("127.0.0.1", live.port)) as caller:
        caller.sendall(head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body)
        pass_turns(live)  # the hub has the request and waits for Redis
    pass_turns(live)  # the hub has heard that the caller hung up
    redis.client_unpause()
    wait_until(
        lambda: any(line["slot"] == "g1" for line in facts_of(live.log(), "undelivered lease taken back")), why=live.log
    )
    assert not redis.exists("live:session:g1")
    assert not redis.exists("live:recycle:g1")
    post(live, "node", "/node/heartbeat", {"nodeId": "n-gone"})
    assert post(live, "runner", "/session/borrow", {"labelKey": "gone:one"}).json()["browserId"] == "g1"


def talk(hub, text, *, until_closed=False):
    """Send bytes, read the answer: (status, lower-case head, body)."""
    with socket.create_connection(("127.0.0.1", hub.port), timeout=PATIENCE_S) as wire:
        wire.sendall(text)
        data = b""
        while True:
            more = wire.recv(65536)
            data += more
            head, blank, body = data.partition(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head.lower())
            if not more or (blank and not until_closed and length and len(body) >= int(length[1])):
                return int(head.split()[1]), head.lower().decode("latin-1"), body


def test_http_1_0_is_answered_and_the_connection_closed(live):
    status, _, body = talk(live, b"GET /health HTTP/1.0\r\n\r\n", until_closed=True)
    assert (status, json.loads(body)["status"]) == (200, "ok")


@pytest.mark.parametrize("method", [b"BREW", b"PROPFIND", b"TRACE", b"OPTIONS", b"LOCK"])
def test_an_unknown_method_is_refused_with_a_problem_document(live, method):
    status, head, body = talk(live, method + b" /session/borrow HTTP/1.1\r\nhost: x\r\n\r\n")
    assert status in (400, 405)
    assert "application/problem+json" in head
    assert json.loads(body)["status"] == status


def test_a_websocket_upgrade_request_is_answered_as_plain_http(live):
    head = (
        b"GET /nodes HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: websocket\r\n"
        b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    status, _, body = talk(live, head)
    assert (status, isinstance(json.loads(body), list)) == (200, True)


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", b"GET  HTTP/1.1\r\n\r\n",
        b"\r\n\r\n\r\nhello\r\n\r\n",
        b"POST /session/borrow HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        b"POST /session/borrow HTTP/1.1\r\nhost: x\r\ncontent-length: 1e3\r\n\r\n",
        b"POST /session/borrow HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}x",
        b"POST /session/borrow HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"GET /nodes HTTP/1.1\r\nhost: x\r\nbad header\r\n\r\n",
        b"GET /nodes HTTP/1.1\r\nhost: x\r\nx: a\x00b\r\n\r\n",
    ],
)  # fmt: skip
def test_a_request_that_is_not_http_is_refused_or_cut_off_without_effect_on_others(live, head):
    with socket.create_connection(("127.0.0.1", live.port), timeout=PATIENCE_S) as wire:
        wire.sendall(head)
        wire.shutdown(socket.SHUT_WR)
        answer = b""
        while more := wire.recv(65536):
            answer += more
    if answer:
        assert re.match(rb"HTTP/1\.1 (400|404|405|413) ", answer), answer
        assert b"application/problem+json" in answer
    assert get(live, "/health").status_code == 200


def test_two_hubs_with_different_prefixes_share_a_redis_without_seeing_each_other(live, start_hub):
    with httpx.Client(headers={"x-hub-secret": live.admin_secret}, timeout=PATIENCE_S) as admin:
        other = start_hub(
            HUB_KEY_PREFIX="other:", HUB_NODE_TIMEOUT="2", HUB_LOG_FORMAT="json", HUB_SWEEPER_EXPIRE="false"
        )
        offer(live, "only-here")
        assert admin.get(f"{other.url}/nodes").json() == []
        assert "only-here" in admin.get(f"{live.url}/nodes").json()
        offer(other, "sleeper")
        other.redis.delete("other:node_alive:sleeper")  # which a registration writes for 90 s
        wait_until(lambda: '"node refreshed"' in other.log(), why=other.log)
        entries = [json.loads(line) for line in other.log().splitlines()]
        (refreshed,) = [entry for entry in entries if entry["event"] == "node refreshed"][:1]
        assert (refreshed["node"], refreshed["for_s"]) == ("sleeper", 30)
        assert "HUB_SWEEPER_EXPIRE" in refreshed["why"]
        assert admin.get(f"{other.url}/nodes").json() == ["sleeper"]
        admin.put(f"{other.url}/admin/sweeper", json={"expire": True})
        other.redis.delete("other:node_alive:sleeper")
        wait_until(lambda: admin.get(f"{other.url}/nodes").json() == [], why=other.log)


def test_a_hub_with_expiry_off_warns_at_its_start_and_every_hub_logs_the_switch(start_hub):
    one, other = (start_hub(HUB_KEY_PREFIX="kept:", HUB_SWEEPER_EXPIRE="false") for _ in range(2))
    for hub in (one, other):
        (off,) = [line for line in hub.log().splitlines() if "WARNING expiry off " in line]
        assert "HUB_SWEEPER_EXPIRE=true" in off
        assert "hub expire on" in off
    answer = httpx.put(
        f"{one.url}/admin/sweeper", json={"expire": True, "by": "ann"}, headers={"x-hub-secret": one.admin_secret},
        timeout=PATIENCE_S,
    )  # fmt: skip
    assert answer.status_code == 200
    for hub in (one, other):
        wait_until(lambda hub=hub: facts_of(hub.log(), "expiry switched "), why=hub.log)
        (told,) = facts_of(hub.log(), "expiry switched ")
        assert (told["expire"], told["by"]) == ("true", "ann")
    late = start_hub(HUB_KEY_PREFIX="kept:", HUB_SWEEPER_EXPIRE="false")
    (started,) = [line for line in late.log().splitlines() if " sweepers started " in line]
    assert " expire=true " in started
    assert "hub expire, by ann" in started
    assert "expiry off" not in late.log()


async def test_a_hub_told_to_stop_refuses_borrows_accepts_returns_and_ends(start_hub):
    hub = start_hub(HUB_KEY_PREFIX="stop:", linger_s=PATIENCE_S)
    offer(hub, "n1", **{"stop:one": ["s1", "s2"]})
    assert post(hub, "runner", "/session/borrow", {"labelKey": "stop:one"}).status_code == 200
    hub.signal(signal.SIGTERM)
    async with hub.client("runner") as runner:

        async def refused():
            answer = await runner.post("/session/borrow", json={"labelKey": "stop:one"})
            if answer.status_code == 200:
                return False
            assert (answer.status_code, answer.json()["code"], answer.headers["retry-after"]) == (503, "stopping", "30")
            return True

        await eventually(refused)
        assert (await runner.get("/health/ready")).status_code == 503
        returned = await runner.post("/session/return", json={"labelKey": "stop:one", "browserId": "s1"})
        assert returned.json() == {"returned": "s1"}
    hub.signal(signal.SIGTERM)
    assert hub.process.wait(PATIENCE_S) in (0, -signal.SIGTERM)
    assert "stopping" in hub.log()
    assert "Traceback" not in hub.log()


def test_the_loss_and_the_return_of_redis_are_each_logged_once(own_redis, start_hub):
    hub = start_hub(HUB_REDIS_URL=own_redis.url, REDIS_BREAKER_COOLDOWN_MS="500")
    offer(hub, "n1", **{"away:one": ["s1"]})
    own_redis.kill()
    wait_until(lambda: "store unreachable" in hub.log(), why=hub.log)
    for _ in range(5):
        answer = post(hub, "runner", "/session/borrow", {"labelKey": "away:one"})
        assert (answer.status_code, answer.json()["code"]) == (503, "store-unavailable")
        assert get(hub, "/health").status_code == 503
        assert get(hub, "/metrics").status_code == 200
    own_redis.start()
    wait_until(lambda: "store reachable again" in hub.log(), why=hub.log)
    wait_until(lambda: get(hub, "/health/ready").status_code == 200, why=hub.log)
    assert (hub.log().count("store unreachable"), hub.log().count("store reachable again")) == (1, 1)
    assert "Traceback" not in hub.log()
    hub.kill()
