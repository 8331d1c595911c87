"""Calls that reach every operation of a hub at least once, good ones and some that are refused."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

from tests.world import HubProcess

J = "/v1/joblib"
LABEL = "gpu:a100:eu"
ROTATE = {"category": "modifiers", "name": "Rotate", "schema": {"type": "object"}}
DISK = {"category": "files", "name": "disk"}
FULL = "lab:modifiers:Rotate"


class Caller:
    """Calls a hub with one credential."""

    def __init__(self, http: httpx.Client, shown: dict[str, str], check: Callable[[httpx.Response], None]) -> None:
        self._http, self._shown, self._check = http, shown, check

    def __call__(
        self, method: str, path: str, body: Any = None, status: int = 200, content: bytes | None = None, **headers: str
    ) -> Any:
        """Return the document of the answer, which must have this status and be what the contract says."""
        shown = {**self._shown, **{name.replace("_", "-"): value for name, value in headers.items()}}
        answer = self._http.request(method, path, json=body, content=content, headers=shown)
        self._check(answer)
        assert answer.status_code == status, (method, path, answer.status_code, answer.text)
        return answer.json() if answer.headers.get("content-type", "").endswith("json") and answer.content else None

    def beginning(self, path: str) -> None:
        """Open a stream, see that it is one, and hang up."""
        with self._http.stream("GET", path, headers=self._shown) as answer:
            self._check(answer)


class Walk:
    """A walk through all operations, by a caller of each kind."""

    def __init__(self, hub: HubProcess, http: httpx.Client, check: Callable[[httpx.Response], None]) -> None:
        self.hub, self._http, self._checked = hub, http, check
        self.runner, self.node, self.admin = (
            self.as_one({"x-hub-secret": secret}) for secret in (hub.runner_secret, hub.node_secret, hub.admin_secret)
        )
        self.stranger = self.as_one({})

    def as_one(self, headers: dict[str, str]) -> Caller:
        """Return a caller with these headers."""
        return Caller(self._http, headers, self._checked)

    def _release(self) -> None:
        """Release a brake that is planted; again where a sweep has found in between that there is no reason for one."""
        engaged = {"state": "engaged", "stale": 9, "registered": 10, "limit": 1, "held": 8}
        for _ in range(50):
            for name in ("hub:brake", "hub:worker_brake"):
                self.hub.redis.hset(name, mapping=engaged)
            self.admin("GET", "/admin/brake")
            headers = {"x-hub-secret": self.hub.admin_secret}
            answer = self._http.post("/admin/brake/release", json={"by": "ann"}, headers=headers)
            self._checked(answer)
            if answer.status_code == 200:
                return
        raise AssertionError("each time a sweep was quicker than the call")

    def nodes(self) -> None:
        """Nodes come, beat, and are looked at."""
        me = {"nodeId": "n1", "incarnation": "p1", "labels": {"zone": "eu"}, "capacity": 4}
        like = {"labelKey": LABEL, "attributes": {"vram": 80, "features": ["nvlink"]}, "warm": ["repo-42"]}
        self.node("POST", "/node/register", {**me, "slots": [{**like, "slotId": f"s{n}"} for n in range(4)]})
        self.node("POST", "/node/register", {"nodeId": "n2", "incarnation": "p1", "host": "rack-7"})
        self.node("POST", "/node/register", {"nodeId": "n2", "incarnation": "p2", "host": "rack-8"}, status=409)
        self.node("POST", "/node/register", {}, status=400)
        self.stranger("POST", "/node/register", {"nodeId": "n1"}, status=401)
        self.node("POST", "/node/n2/slots", {"pools": {"browser:chromium": 2}})
        self.node("POST", "/node/n2/slots", {"slots": [{"labelKey": LABEL, "slotId": "s1"}]})
        self.node("POST", "/node/nobody/slots", {"pools": {}}, status=404)
        anew = {"attributes": {"s0": None, "none": {}}, "warm": {"s1": []}}
        self.node("POST", "/node/heartbeat", {"nodeId": "n1", "incarnation": "p1", "number": 2, **anew})
        self.node("POST", "/node/heartbeat", {"nodeId": "stranger"})
        self.node("GET", "/nodes/n1/orders?since=7")
        self.node("GET", "/nodes/stranger/orders", status=404)
        self.node("POST", "/node/heartbeats", {"beats": [{"nodeId": "n2"}, {"nodeId": ""}]})
        self.stranger("GET", "/nodes")
        self.runner("GET", "/nodes?detail=1&limit=1")
        self.runner("GET", "/nodes/n1")
        self.runner("GET", "/nodes/nobody", status=404)

    def lending(self) -> None:
        """Slots are borrowed and come back."""
        held = self.runner("POST", "/session/borrow", {"labelKey": "gpu:a100"}, idempotency_key="k1")
        named = {"labelKey": LABEL, "browserId": held["browserId"], "leaseToken": held["leaseToken"]}
        slot = held["browserId"]
        self.node("POST", "/node/heartbeat", {"nodeId": "n1", "incarnation": "p1"})
        self.runner("GET", f"/leases/{slot}/verify?token={held['leaseToken']}")
        self.runner("GET", f"/leases/{slot}/verify?token=7")
        self.runner("POST", "/session/renew", {**named, "ttlSeconds": 60})
        self.runner("POST", "/session/renew", {"browserId": "none"}, status=409)
        self.runner("GET", "/sessions")
        self.runner("GET", f"/sessions/{slot}")
        self.runner("GET", "/sessions/none", status=404)
        self.runner("GET", "/usage?by=slot&since=7d")
        self.runner("GET", "/usage?by=colour", status=400)
        self.runner("POST", f"/results/browser/{slot}/test", {"testId": "login"})
        self.runner("POST", "/leases/watch", {"leases": [{"browserId": slot, "leaseToken": "7"}], "waitSeconds": 1})
        self.runner("GET", "/queue/k1")
        self.runner("DELETE", "/queue/k1", status=409)
        self.runner("POST", "/session/return", named)
        self.runner("POST", "/session/return", named)
        self.runner("POST", "/session/borrow", {}, status=400)
        self.runner("POST", "/session/borrow", {"labelKey": "gpu", "where": "vram >"}, status=400)
        self.runner("POST", "/session/borrow", {"labelKey": "gpu:a10O", "waitForPool": False}, status=404)

    def bundles(self) -> None:
        """Several slots are borrowed at once and come back."""
        wish = {"parts": [{"label": LABEL, "count": 2}, {"label": "gpu", "where": "vram == 80"}], "together": True}
        held = self.runner("POST", "/bundles", wish, idempotency_key="b1")["bundle"]
        self.runner("GET", "/queue/b1")
        self.runner("GET", "/sessions")
        self.runner("POST", f"/bundles/{held}/renew", {"ttlSeconds": 60})
        self.runner("POST", f"/bundles/{held}/return")
        self.runner("POST", f"/bundles/{held}/return")
        self.runner("POST", f"/bundles/{held}/renew", status=409)
        self.runner("POST", "/bundles", {"parts": []}, status=400)
        self.runner("POST", "/bundles", {"parts": [{"label": "gpu:a10O"}]}, status=404)
        hoping = {"parts": [{"label": LABEL, "count": 9}], "maxWaitSeconds": 0.01, "waitForPool": True}
        self.runner("POST", "/bundles", hoping, status=503, idempotency_key="b2")
        self.runner("GET", "/queue/b2")
        self.runner("GET", "/queue")
        self.runner("DELETE", "/queue/b2")

    def queue(self) -> None:
        """A borrow waits in vain, is seen, and given up."""
        wish = {"labelKey": "nothing:free", "maxWaitSeconds": 0.01, "anyOf": [{"label": "gpu", "where": "vram > 99"}]}
        self.runner("POST", "/session/borrow", wish, status=503, idempotency_key="k2")
        self.runner("GET", "/queue")
        self.runner("GET", "/queue/k2")
        self.runner("DELETE", "/queue/k2")
        self.runner("GET", "/queue/k2", status=404)

    def pools(self) -> None:
        """Pools are looked at, and one is restarted."""
        self.runner("GET", "/pools")
        self.runner("GET", f"/pools/{LABEL}")
        self.runner("GET", "/pools/no:such", status=404)
        self.runner("GET", f"/pools/{LABEL}/attributes")
        self.runner("GET", "/pools/none/attributes")
        self.runner("GET", f"/autoscale/{LABEL}?headroom=1")
        self.runner("GET", f"/autoscale/{LABEL}?where=vram%20%3D%3D%2080")
        self.runner("GET", "/autoscale/gpu:a10O")
        self.runner("GET", "/autoscale/jobs/@global:analysis:Square?headroom=1")
        self.runner("GET", "/autoscale/jobs/Square", status=404)
        self.admin("POST", f"/admin/pools/{LABEL}/restart")

    def operators(self) -> None:
        """Operators switch things."""
        self.admin("POST", "/admin/nodes/n1/drain", {"deadlineSeconds": 600})
        self.runner("GET", "/nodes/n1/safe-to-kill")
        self.runner("GET", "/nodes?detail=1")
        self.admin("POST", "/admin/nodes/n1/undrain")
        self.admin("POST", "/admin/nodes/n1/cordon", {"reason": "fan is broken"})
        self.node("POST", "/node/heartbeat", {"nodeId": "n1", "incarnation": "p1"})
        self.runner("GET", "/nodes/n1")
        self.admin("POST", "/admin/nodes/n1/sidecar/upgrade")
        self.admin("GET", "/admin/sweeper")
        self.admin("PUT", "/admin/sweeper", {"expire": False, "by": "ann"})
        self.admin("GET", "/admin/brake?of=workers")
        self.admin("POST", "/admin/brake/release", {"of": "workers"}, status=409)
        self._release()
        self.admin("POST", "/admin/sweep", {"dryRun": True})
        self.admin("PUT", "/admin/caps/gpu:a100", {"cap": 3})
        self.admin("GET", "/admin/caps")
        self.admin("PUT", "/admin/settings/HUB_NODE_TIMEOUT", {"value": "90", "by": "ann"})
        self.admin("PUT", "/admin/settings/HUB_NODE_TIMEOUT", {"value": "soon"}, status=400)
        self.admin("PUT", "/admin/settings/HUB_PORT", {"value": "1"}, status=404)
        self.admin("GET", "/admin/settings")
        self.admin("PUT", "/admin/settings/HUB_NODE_TIMEOUT", {"value": None})
        self.admin("GET", "/audit")

    def holds(self) -> None:
        """Slots are unwell, and well again."""
        held = self.runner("POST", "/session/borrow", {"labelKey": "gpu:a100"}, idempotency_key="ill")
        slot, lease = held["browserId"], {"browserId": held["browserId"], "leaseToken": held["leaseToken"]}
        self.node("POST", f"/node/n1/slots/{slot}/hold", {"reason": "no answer", "incarnation": "p1", "number": 90})
        self.runner("POST", "/leases/watch", {"leases": [lease], "unwell": {}})
        self.runner("GET", "/sessions")
        self.runner("POST", "/session/return", {"labelKey": LABEL, **lease})
        self.runner("GET", f"/autoscale/{LABEL}")
        self.runner("GET", f"/pools/{LABEL}")
        self.node("DELETE", f"/node/n1/slots/{slot}/hold?incarnation=p1&number=80")
        self.node("DELETE", f"/node/n1/slots/{slot}/hold?incarnation=p1&number=91")
        self.admin("POST", f"/admin/slots/{slot}/hold", {"reason": "its fan"})
        self.node("POST", "/node/heartbeat", {"nodeId": "n1", "incarnation": "p1", "held": {}})
        self.runner("GET", "/nodes/n1")
        self.admin("DELETE", f"/admin/slots/{slot}/hold")
        self.admin("POST", "/admin/slots/none/hold", {"reason": "its fan"}, status=404)

    def rules(self) -> None:
        """Leases end by the rules of their pools, and their holders tell of use."""
        self.admin("PUT", "/admin/pools/gpu:*/rules", {"maxHoldSeconds": 600, "idleSeconds": 60, "by": "ann"})
        self.admin("PUT", "/admin/pools/gpu:*/rules", {}, status=400)
        self.admin("GET", "/admin/pools/rules")
        self.admin("GET", "/admin/pools/gpu:*/rules")
        self.admin("GET", "/admin/pools/none:*/rules", status=404)
        held = self.runner(
            "POST", "/session/borrow", {"labelKey": "gpu:a100", "ttlIsDefault": True}, idempotency_key="ru"
        )
        slot, token = held["browserId"], {"leaseToken": held["leaseToken"]}
        self.runner("POST", f"/leases/{slot}/activity", token)
        self.runner("POST", f"/leases/{slot}/pause", {**token, "seconds": 30})
        self.runner("POST", f"/leases/{slot}/activity", {"leaseToken": "7"}, status=409)
        self.runner("GET", f"/sessions/{slot}")
        self.runner(
            "POST", "/leases/watch", {"leases": [{"browserId": slot, **token}], "ending": {}, "waitSeconds": 0.1}
        )
        self.runner("POST", "/session/return", {"labelKey": LABEL, "browserId": slot, **token})
        self.admin("DELETE", "/admin/pools/gpu:*/rules")

    def teams(self) -> None:
        """Teams share pools, with a row and without one."""
        self.admin("PUT", "/admin/teams/ml", {"label": "gpu:*", "guarantee": 999, "weight": 2, "by": "ann"})
        self.admin("PUT", "/admin/teams/ml", {"label": "gpu:*", "guarantee": 2, "ceiling": 1}, status=400)
        self.admin("PUT", "/admin/teams/ml", {}, status=400)
        held = self.runner("POST", "/session/borrow", {"labelKey": "gpu:a100"}, idempotency_key="te")
        self.runner("GET", "/teams")
        slot, token = held["browserId"], {"leaseToken": held["leaseToken"]}
        self.runner("POST", "/session/return", {"labelKey": LABEL, "browserId": slot, **token})
        self.admin("DELETE", "/admin/teams/ml", status=400)
        self.admin("DELETE", "/admin/teams/ml?label=gpu:*")

    def tokens(self) -> None:
        """Tokens are made, exchanged and revoked."""
        made = self.admin("POST", "/admin/tokens", {"user": "ann", "scopes": ["read"]}, status=201)
        self.admin("GET", "/admin/tokens")
        self.admin("GET", f"/admin/tokens/{made['id']}")
        join = self.admin("POST", "/admin/tokens", {"join": "fleet"}, status=201)
        digest = hashlib.sha256(b"a secret of the node's own").hexdigest()
        newcomer = self.as_one({"authorization": f"Bearer {join['token']}"})
        newcomer("POST", "/node/join", {"nodeId": "n3", "sha256": digest}, status=201)
        ann = self.as_one({"authorization": f"Bearer {made['token']}"})
        ann("GET", "/admin/tokens", status=403)
        self.admin("DELETE", f"/admin/tokens/{made['id']}")

    def hooks(self) -> None:
        """Hooks are added, tried, paused and removed."""
        asked = {"url": "https://9.9.9.9:1/hook", "on": ["lease.ended"], "label": "gpu:*", "format": "slack"}
        made = self.admin("POST", "/admin/hooks", asked, status=201)["id"]
        self.admin("POST", "/admin/hooks", {**asked, "url": "http://127.0.0.1/"}, status=400)
        self.admin("GET", "/admin/hooks")
        self.admin("GET", f"/admin/hooks/{made}")
        for act in ("pause", "resume", "test"):
            self.admin("POST", f"/admin/hooks/{made}/{act}")
            self.admin("POST", f"/admin/hooks/none/{act}", status=404)
        self.admin("DELETE", f"/admin/hooks/{made}", status=204)
        self.admin("DELETE", f"/admin/hooks/{made}", status=404)

    def looking(self) -> None:
        """Read history, explanations, events, health and metrics."""
        self.runner("GET", "/history?limit=1000")
        for kind, name in (("node", "n1"), ("slot", "s1"), ("run", "none")):
            self.runner("GET", f"/why/{kind}/{name}", status=404 if name == "none" else 200)
        self.runner.beginning("/events")
        self.runner("GET", "/realms")
        for path in ("/health", "/health/ready", "/health/live", "/ready", "/metrics"):
            self.stranger("GET", path)
        self.admin("GET", "/diagnostics")
        self.admin("GET", "/diagnostics/env")
        with a_node() as url:
            self.node("POST", "/node/register", {"nodeId": "n4", "baseUrl": url})
            self.admin("GET", "/diagnostics/worker-env/n4")
        self.admin("GET", "/diagnostics/worker-env/n4", status=500)

    def work(self) -> None:
        """Workers come, tasks run, fail and are tried again."""
        worker = self.admin("PUT", f"{J}/rooms/lab/jobs", ROTATE, status=201)["worker_id"]
        other = self.admin("POST", f"{J}/workers", status=201)["id"]
        self.admin("PUT", f"{J}/rooms/lab/jobs", {**ROTATE, "worker_id": worker})
        self.admin("PUT", f"{J}/rooms/lab/jobs", {**ROTATE, "schema": {"type": "array"}}, status=409)
        self.admin("PUT", f"{J}/rooms/lab/jobs", {}, status=422)
        self.stranger("POST", f"{J}/workers", status=401)
        for path in (f"rooms/lab/jobs/{FULL}", "rooms/lab/jobs", "workers", "rooms/lab/workers"):
            self.admin("GET", f"{J}/{path}")
        submit = f"{J}/rooms/lab/tasks/{FULL}"
        wish = {"maxAttempts": 2, "backoffSeconds": 0, "priority": 5, "notBefore": "2020-01-02T03:04:05Z"}
        self.admin("POST", submit, {"payload": {"angle": 90}, **wish}, status=202)
        self.admin("POST", submit, {"payloads": [{}], "maxSilenceSeconds": 60}, status=202)
        self.admin("POST", f"{J}/rooms/lab/tasks/lab:no:job", {}, status=404)
        self.admin("POST", f"{J}/tasks/claim", {"worker_id": other})
        claim = {"worker_id": worker, "limit": 2, "start": True}
        tasks = self.admin("POST", f"{J}/tasks/claim", claim, idempotency_key="c1")["tasks"]
        two, one = ({"id": each["id"], "claim": each["claim"]} for each in tasks)
        self.reports(worker, one, two)
        self.admin("PATCH", f"{J}/workers/{other}")
        self.schedules()
        self.dead(worker, two["id"])
        self.admin("DELETE", f"{J}/workers/{other}", status=204)
        self.admin("DELETE", f"{J}/workers/{other}", status=404)

    def reports(self, worker: str, one: dict[str, str], two: dict[str, str]) -> None:
        """A worker says how far its tasks are, and what came of them."""
        said = [{**one, "progress": 0.4, "message": "step 3", "log": ["a line"]}]
        self.admin("POST", f"{J}/tasks/progress", {"worker_id": worker, "tasks": said})
        self.admin("PATCH", f"{J}/workers/{worker}", {"tasks": [one, {"id": two["id"], "claim": "7"}]})
        self.admin("GET", f"{J}/workers/{worker}/taken")
        self.admin("GET", f"{J}/tasks/{one['id']}")
        reports = [{**one, "status": "completed", "result": {"images": 40}}]
        self.admin("POST", f"{J}/tasks/claim", {"worker_id": worker, "limit": 0, "results": reports})
        self.admin("GET", f"{J}/tasks/{one['id']}", prefer="wait=1")
        self.admin("PATCH", f"{J}/tasks/{one['id']}", {"status": "running"}, status=409)
        self.admin("GET", f"{J}/rooms/lab/tasks")
        self.admin("GET", f"{J}/rooms/lab/jobs/{FULL}/tasks?status=completed")

    def schedules(self) -> None:
        """Tasks are submitted at certain times, once, and one after the other."""
        nightly = f"{J}/rooms/lab/schedules/nightly"
        times = {"cron": "30 2 * * mon-fri", "timeZone": "Europe/Berlin", "maxAttempts": 3, "maxSilenceSeconds": 60}
        for status in (201, 200):
            self.admin("PUT", nightly, {"job": FULL, "payload": {"angle": 90}, "priority": 5, **times}, status=status)
        self.admin("PUT", f"{J}/rooms/lab/schedules/often", {"job": FULL, "everySeconds": 60}, status=201)
        self.admin("PUT", nightly, {"job": FULL, "cron": "never"}, status=422)
        self.admin("PUT", nightly, {"job": "lab:no:job", "everySeconds": 60}, status=404)
        self.admin("GET", f"{J}/rooms/lab/schedules")
        self.admin("PATCH", nightly, {"paused": True})
        self.admin("GET", nightly)
        self.admin("DELETE", nightly, status=204)
        self.admin("GET", nightly, status=404)
        submit = f"{J}/rooms/lab/tasks/{FULL}"
        first = self.admin("POST", submit, {"uniqueKey": "k", "uniqueSeconds": 60}, status=202)["id"]
        self.admin("POST", submit, {"uniqueKey": "k"})
        last = self.admin("POST", submit, {"after": [first], "onFailure": "run"}, status=202)["id"]
        self.admin("GET", f"{J}/tasks/{last}")
        for task in (last, first):
            self.admin("PATCH", f"{J}/tasks/{task}", {"status": "cancelled"})

    def dead(self, worker: str, task: str) -> None:
        """A task fails for the last time it may, is tried again, fails again, and is dropped."""
        fails = {"status": "failed", "error": "the scene is empty"}
        self.admin("PATCH", f"{J}/tasks/{task}", fails)
        for act in (("POST", f"{J}/tasks/{task}/retry", 202), ("DELETE", "", 204)):
            while self.admin("GET", f"{J}/tasks/{task}")["status"] != "failed":
                found = self.admin("POST", f"{J}/tasks/claim", {"worker_id": worker, "start": True})["task"]
                self.admin("PATCH", f"{J}/tasks/{found['id']}", fails)
            self.admin("GET", f"{J}/dead")
            self.admin("GET", f"{J}/dead/{task}")
            made = self.admin(act[0], act[1] or f"{J}/dead/{task}", status=act[2])
            task = made["id"] if made else task

    def providers(self) -> None:
        """A provider answers what it is asked."""
        made = self.admin("PUT", f"{J}/rooms/lab/providers", DISK, status=201)
        self.admin("PUT", f"{J}/rooms/lab/providers", {**DISK, "worker_id": made["worker_id"]})
        self.admin("GET", f"{J}/rooms/lab/providers")
        self.admin("GET", f"{J}/rooms/lab/providers/lab:files:disk/info")
        self.admin("GET", f"{J}/rooms/lab/providers/lab:files:disk", status=504, prefer="wait=0")
        asked = hashlib.sha256(b"{}").hexdigest()
        self.admin("POST", f"{J}/providers/{made['id']}/results", None, 204, b'{"free": 7}', x_request_hash=asked)
        self.admin("GET", f"{J}/rooms/lab/providers/lab:files:disk")
        self.admin("DELETE", f"{J}/providers/{made['id']}", status=204)

    def leaving(self) -> None:
        """Everything goes."""
        self.node("DELETE", "/node/n1/slots/s3")
        self.node("DELETE", "/node/n1/slots/none")
        self.node("DELETE", "/node/n1")
        self.node("DELETE", "/node/nobody")
        self.admin("DELETE", "/admin/nodes/n2")


@contextmanager
def a_node() -> Iterator[str]:
    """A node that tells how it is set up."""

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"env": {"A": "1"}}')

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
