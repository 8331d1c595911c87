"""Every endpoint of the OpenAPI document with generated calls, right and wrong: no failure, no hang, nothing kept of
what was refused."""

from __future__ import annotations

import json
import time
import warnings
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from redis import Redis
from schemathesis import GenerationMode
from schemathesis import openapi as schemathesis_openapi

from hub.api.publish import FILE
from tests.world import PATIENCE_S, HubProcess

LABEL = "gpu:a100"
KNOWN = {
    "nodeId": "n1", "NodeId": "n1", "node_id": "n1", "labelKey": LABEL, "label": LABEL, "browserId": "s1",
    "slotId": "s2", "slot_id": "s1", "slot": "s1", "leaseToken": "1", "pools": {LABEL: 2}, "lent": {"s1": "7"},
    "bundle": "b1875000000000000001", "policy": "reuse", "kind": "slot", "id": "s1", "ticket": "fuzzed",
    "name": "HUB_BORROW_WILDCARDS", "job_name": "fuzzed:modifiers:Job",
    "pattern": LABEL, "team": "ml", "hook": "hook-that-nobody-added",
}  # fmt: skip
DOCUMENT = json.loads(FILE.read_bytes())
OPERATIONS = [
    f"{method.upper()} {path}"
    for path, methods in sorted(DOCUMENT["paths"].items())
    if not path.startswith("/v1/joblib")  # they refuse in a way of their own: tests/api/jobs/test_fuzz.py
    for method in sorted(methods)
]
ENDLESS = {"GET /events"}  # the answer ends only when the client hangs up
SCHEMA = schemathesis_openapi.from_dict(json.loads(FILE.read_bytes()))  # it changes what it is given
QUIET = {
    "HUB_NODE_TIMEOUT": "3600",
    "HUB_NODE_SWEEP_INTERVAL_SECONDS": "3600",
    "HUB_BORROW_TTL_SWEEP_SECONDS": "3600",
    "HUB_BORROW_TTL_MIN_SECONDS": "600",
    "HUB_BORROW_QUEUE_TIMEOUT_SECONDS": "1",
}
NO_SECRETS = {"HUB_RUNNER_SECRET": "", "HUB_NODE_SECRET": "", "HUB_ADMIN_SECRET": ""}

# All keys but those a refusal may touch: the clocks, the audit log, where denied registrations are noted, and the
# figures of usage, which hubs add up in the background. Reading a hash may change the order of its fields.
FINGERPRINT = """
local found = {}
local untold = {['hub:store'] = true, ['hub:hubs'] = true, ['audit:entries'] = true, ['hub:refusals'] = true}
for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do
  local name = string.sub(key, #ARGV[1] + 1)
  if not untold[name] and not string.find(name, '^hub:usage:') and not string.find(name, '^hub:usage_told:') then
    local content = {redis.call('DUMP', key)}
    if redis.call('TYPE', key).ok == 'hash' then
      local flat = redis.call('HGETALL', key)
      content = {}
      for i = 1, #flat, 2 do content[#content + 1] = #flat[i] .. ':' .. flat[i] .. '=' .. flat[i + 1] end
      table.sort(content)
    end
    found[#found + 1] = key
    found[#found + 1] = redis.sha1hex(table.concat(content))
    found[#found + 1] = redis.call('PTTL', key)
  end
end
return found
"""
KEPT = ("hub:patience", "hub:request:", "hub:ticket:")  # its place, when it has a key to come back with
WAITED = ("hub:history", "hub:pace:")  # kept after a borrow that waited in vain: its event, and the pace of the label


class Quarry:
    """A quiet hub, and what its store holds."""

    def __init__(self, redis_url: str, name: str, environment: dict[str, str]) -> None:
        self.prefix = f"{name}:"
        self.redis = Redis.from_url(redis_url)
        self.process = HubProcess({"HUB_REDIS_URL": redis_url, "HUB_KEY_PREFIX": self.prefix, **QUIET, **environment})
        self.process.wait_until_ready()
        self.http = httpx.Client(base_url=self.process.url, timeout=PATIENCE_S)

    def seed(self) -> None:
        """Nothing but one node and three slots of it, one of them lent, and a ticket that is away."""
        for key in self.redis.keys(f"{self.prefix}*"):
            if key != f"{self.prefix}hub:store".encode():
                self.redis.delete(key)
        secret = {"x-hub-secret": self.process.node_secret}
        slots = [{"labelKey": LABEL, "slotId": slot} for slot in ("s1", "s2", "s3")]
        answer = self.http.post("/node/register", json={"nodeId": "n1", "slots": slots}, headers=secret)
        assert answer.status_code == 200, answer.text
        secret = {"x-hub-secret": self.process.runner_secret}
        self.http.post("/session/borrow", json={"labelKey": LABEL}, headers=secret)
        waits = {"labelKey": "nothing:free", "maxWaitSeconds": 0.01}
        answer = self.http.post("/session/borrow", json=waits, headers={**secret, "idempotency-key": "fuzzed"})
        assert answer.json()["code"] == "timeout", answer.text
        patience = f"{self.prefix}hub:patience"
        for ticket in self.redis.zrange(patience, 0, -1):  # kept for a minute, and a slow machine takes longer
            self.redis.zincrby(patience, 3_600_000, ticket)

    def stored(self) -> dict[bytes, tuple[bytes, int]]:
        """Key -> (digest of its content, ms it lives on or -1), once hubs have counted the leases that ended."""
        deadline = time.monotonic() + PATIENCE_S
        while self.redis.exists(f"{self.prefix}hub:usage_ended"):
            assert time.monotonic() < deadline, "no hub counts the leases that ended"
            time.sleep(0.02)
        flat = self.redis.eval(FINGERPRINT, 0, self.prefix)
        return {key: (digest, left) for key, digest, left in zip(flat[::3], flat[1::3], flat[2::3], strict=True)}

    def audited(self) -> set[str]:
        """Return the actions in the audit log."""
        entries = self.redis.lrange(f"{self.prefix}audit:entries", 0, -1)
        return {json.loads(entry)["Action"] for entry in entries}

    def close(self) -> None:
        self.http.close()
        self.process.kill()
        self.redis.close()


@pytest.fixture(scope="module")
def open_hub(_server):
    quarry = Quarry(_server.url, "fuzz-open", NO_SECRETS)
    yield quarry
    quarry.close()


@pytest.fixture(scope="module")
def closed_hub(_server):
    quarry = Quarry(_server.url, "fuzz-closed", {})
    yield quarry
    quarry.close()


def cases(operation: str) -> st.SearchStrategy[Any]:
    """Calls of an operation, as the document wants them and not."""
    method, _, path = operation.partition(" ")
    target = SCHEMA[path][method]
    kinds = [target.as_strategy(generation_mode=GenerationMode.POSITIVE)]
    if target.body or target.query or target.path_parameters:
        kinds.append(target.as_strategy(generation_mode=GenerationMode.NEGATIVE))
    return st.one_of(kinds)


def aim(case: Any) -> None:
    """Make a call hit what is there: generated ids never would."""
    for name in case.path_parameters or {}:
        case.path_parameters[name] = KNOWN[name]
    if isinstance(case.body, dict):
        case.body.update({name: KNOWN[name] for name in case.body if name in KNOWN})


def call(quarry: Quarry, case: Any, secret: str | None) -> httpx.Response:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        said = case.as_transport_kwargs(base_url=quarry.process.url)
    body = {"json": said["json"]} if "json" in said else {"content": _bytes(said.get("data"))}
    headers = [(str(name).encode("latin-1", "replace"), _bytes(value)) for name, value in said["headers"].items()]
    if secret is not None:
        headers.append((b"x-hub-secret", secret.encode()))
    params = said.get("params")
    return quarry.http.request(said["method"], said["url"], params=params or None, headers=headers, **body)


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str("" if value is None else value).encode("utf-8", "replace")


def check(quarry: Quarry, operation: str, answer: httpx.Response, before: dict[bytes, tuple[bytes, int]]) -> None:
    shown = (operation, answer.request.url, answer.request.content[:500], answer.status_code, answer.text[:500])
    silent = answer.status_code == 500 and answer.json()["code"] == "node-silent"  # none of these nodes answers
    assert answer.status_code < 500 or answer.status_code == 503 or silent, shown
    if answer.status_code < 400:
        return
    assert answer.headers["content-type"] == "application/problem+json", shown
    document = answer.json()
    assert document["status"] == answer.status_code, shown
    assert {"type", "title", "code", "instance"} <= set(document), shown
    assert (answer.status_code == 503) == ("retry-after" in answer.headers), shown
    after = quarry.stored()
    told = {key: digest for key, (digest, _) in before.items()}
    changed = {key.decode()[len(quarry.prefix) :] for key, (digest, _) in after.items() if told.get(key) != digest}
    if operation == "POST /session/borrow" and answer.json()["code"] == "timeout":
        left = (*WAITED, *KEPT) if "idempotency-key" in answer.request.headers else WAITED
        changed = {key for key in changed if not key.startswith(left)}
    assert changed == set(), shown
    gone = [key for key, (_, left) in before.items() if key not in after and left < 0]
    if (
        operation == "POST /session/borrow"
    ):  # a call that finds a pool empty takes it out of the index of pools with slots
        gone = [key for key in gone if b":hub:open:" not in key]
    assert gone == [], shown


def hunt(quarry: Quarry, operation: str, examples: int, secrets: list[str | None]) -> set[int]:
    """Call an operation so many times; returns the statuses that were answered."""
    seen: set[int] = set()
    quarry.seed()

    @hypothesis_settings(
        max_examples=examples, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=cases(operation), known=st.booleans(), secret=st.sampled_from(secrets))
    def run(case: Any, known: bool, secret: str | None) -> None:
        if known:
            aim(case)
        before = quarry.stored()
        try:
            answer = call(quarry, case, secret)
        except (httpx.InvalidURL, UnicodeEncodeError, httpx.LocalProtocolError):
            return  # no client can send this one
        seen.add(answer.status_code)
        check(quarry, operation, answer, before)

    run()
    return seen


@pytest.mark.parametrize("operation", [each for each in OPERATIONS if each not in ENDLESS])
def test_an_open_hub_answers_every_call_and_stores_nothing_of_a_refused_one(open_hub, operation):
    seen = hunt(open_hub, operation, 24, [None])
    documented = {
        int(status) for status in DOCUMENT["paths"][operation.split()[1]][operation.split()[0].lower()]["responses"]
    }
    assert seen
    assert seen <= documented | {200, 404, 405}, "an answer the document does not name"


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_hub_with_secrets_does_nothing_for_strangers(closed_hub, operation):
    seen = hunt(closed_hub, operation, 8, [None, "", "wrong"])
    open_to_all = operation.split()[1] in ("/health", "/health/live", "/health/ready", "/ready", "/metrics", "/nodes")
    assert open_to_all or seen <= {401, 404, 405, 413}, seen
    assert closed_hub.audited() <= {
        "register.success", "register.update", "register.denied", "runner.loaded", "node.loaded",
    }  # fmt: skip


def test_the_hub_serves_the_contract_that_the_fuzzed_calls_were_made_from(open_hub):
    assert open_hub.http.get("/openapi.json").json() == DOCUMENT
    assert open_hub.http.get("/docs").status_code == 200


def test_the_hub_still_lends_after_all_fuzzed_calls(open_hub):
    for action in ("return", "borrow"):
        body = {"labelKey": "after:all", "browserId": "z1"}
        if action == "return":
            slots = [{"labelKey": "after:all", "slotId": "z1"}]
            open_hub.http.post("/node/register", json={"nodeId": "after", "slots": slots})
        assert open_hub.http.post(f"/session/{action}", json=body).status_code == 200
    assert "Traceback" not in open_hub.process.log()
