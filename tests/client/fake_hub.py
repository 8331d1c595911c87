"""A hub of a few dictionaries, spoken to without a network: it records what the SDK sends and can be scripted."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx

from hub.client import NodeAgent
from tests import world

# An answer from the script: a status with a code, an exception, or what a callable makes of the request.
Scripted = tuple[int, str] | Exception | Callable[["Seen"], Any]


@dataclass
class Seen:
    at: float
    method: str
    path: str
    body: dict[str, Any]
    headers: httpx.Headers
    query: dict[str, str]

    @property
    def what(self) -> str:
        return f"{self.method} {self.path}"


class Reset(httpx.ReadError):
    """The connection broke after the request was sent."""

    def __init__(self) -> None:
        super().__init__("connection reset")


def problem(status: int, code: str, retry_after: str | None = None) -> httpx.Response:
    headers = {"content-type": "application/problem+json", **({"retry-after": retry_after} if retry_after else {})}
    return httpx.Response(status, json={"status": status, "code": code, "detail": f"told {code}"}, headers=headers)


class FakeHub:
    """`say("POST /session/borrow", ...)` scripts the next answers to a request; without a script it plays a hub."""

    def __init__(self, ttl_s: float = 30.0, pace_ms: float = 40.0) -> None:
        self.ttl_s = ttl_s
        self.pace_ms = pace_ms
        self.seen: list[Seen] = []
        self.free = ["s1", "s2"]
        self.lent: dict[str, str] = {}
        self.leases: dict[str, dict[str, Any]] = {}
        self.bundles: dict[str, list[dict[str, Any]]] = {}
        self.nodes: dict[str, dict[str, dict[str, Any]]] = {}
        self.version = 0
        self.recycle: list[str] = []
        self.held: dict[str, str] = {}
        self.drain = False
        self._script: dict[str, deque[Scripted]] = {}

    def say(self, what: str, *answers: Scripted) -> None:
        self._script.setdefault(what, deque()).extend(answers)

    def unsay(self, what: str) -> None:
        """Forget the rest of a script."""
        self._script.pop(what, None)

    def said(self, what: str) -> list[Seen]:
        return [seen for seen in self.seen if seen.what == what]

    def transport(self) -> httpx.MockTransport:
        return httpx.MockTransport(self.answer)

    def slow_transport(self, what: str, seconds: float) -> httpx.MockTransport:
        """Return a transport on which requests `what` take their time."""

        async def answer(request: httpx.Request) -> httpx.Response:
            if f"{request.method} {request.url.path}" == what:
                await asyncio.sleep(seconds)
            return self.answer(request)

        return httpx.MockTransport(answer)

    def answer(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content or b"{}")
        query = dict(request.url.params)
        seen = Seen(time.monotonic(), request.method, request.url.path, body, request.headers, query)
        self.seen.append(seen)
        script = self._script.get(seen.what)
        if script:
            answer = script.popleft()
            if isinstance(answer, Exception):
                raise answer
            if isinstance(answer, tuple):
                return problem(*answer, retry_after="0.01" if answer[0] == 503 else None)
            return self._response(answer(seen))
        return self._response(self.play(seen))

    def _response(self, made: Any) -> httpx.Response:
        return made if isinstance(made, httpx.Response) else httpx.Response(200, json=made)

    def play(self, seen: Seen) -> Any:
        match seen.method, seen.path.strip("/").split("/"):
            case "POST", ["session", "borrow"]:
                return self._borrow(seen)
            case "POST", ["bundles"]:
                return self._borrow_all(seen)
            case "POST", ["bundles", bundle, "return"]:
                live = [each["browserId"] for each in self.bundles[bundle] if self._is_live(each)]
                ended = [slot_id for slot_id in live if self.lent.pop(slot_id)]
                return {"bundle": bundle, "returned": ended, **({} if ended else {"note": "already returned"})}
            case "POST", ["session", "renew"]:
                if self.lent.get(seen.body["browserId"]) != seen.body["leaseToken"]:
                    return problem(409, "grant-over")
                return {"browserId": seen.body["browserId"], "ttlSeconds": self.ttl_s}
            case "POST", ["session", "return"]:
                known = self.lent.pop(seen.body["browserId"], None)
                return {"returned": seen.body["browserId"], **({} if known else {"note": "already returned"})}
            case "POST", ["node", "register"]:
                slots = self.nodes.setdefault(seen.body["nodeId"], {})
                return {"registered": 1, "nextBeatMs": self.pace_ms, "version": 0, **self._publish(slots, seen)}
            case "POST", ["node", "heartbeat"]:
                return self._beat(seen)
            case "POST", ["node", node_id, "slots"]:
                if node_id not in self.nodes:
                    return problem(404, "unknown-node")
                return self._publish(self.nodes[node_id], seen)
            case "POST" | "DELETE", ["node", node_id, "slots", slot_id, "hold"]:
                return self._hold(node_id, slot_id, seen)
            case "DELETE", ["node", node_id, "slots", slot_id]:
                if slot_id in self.lent and "onlyFree" in seen.query:
                    return problem(409, "slot-lent")
                self.recycle = [marked for marked in self.recycle if marked != slot_id]
                gone = self.nodes.get(node_id, {}).pop(slot_id, None)
                return {"withdrawn": slot_id, "ended": self.lent.pop(slot_id, None) is not None and gone is not None}
            case "DELETE", ["node", node_id]:
                return {"left": node_id, "slots": len(self.nodes.pop(node_id, {}))}
            case "DELETE", ["queue", key]:
                return problem(409, "ticket-granted") if key in self.leases else {"cancelled": True}
            case "GET", ["queue", key] if bundle := self.leases[key].get("bundle"):
                return {"state": "granted", "bundle": bundle, "slots": self.bundles[bundle]}
            case "GET", ["queue", key]:
                return {"state": "granted", "ttlSeconds": self.ttl_s, **self.leases[key]}
            case "GET", ["nodes", node_id]:
                return {"nodeId": node_id, "slotList": [{"browserId": s} for s in self.nodes.get(node_id, {})]}
        return {"path": seen.path}

    def _borrow(self, seen: Seen) -> Any:
        key = seen.headers["idempotency-key"]
        if key not in self.leases:
            if not self.free:
                return problem(503, "no-capacity", "0.01")
            label = seen.body.get("labelKey") or seen.body["anyOf"][0]["label"]
            self.leases[key] = self._lend(label, str(len(self.leases) + 1), seen.at)
        return self._granted(self._with_rest(self.leases[key], seen), seen)

    def _borrow_all(self, seen: Seen) -> Any:
        key = seen.headers["idempotency-key"]
        if key not in self.leases:
            labels = [part["label"] for part in seen.body["parts"] for _ in range(part.get("count", 1))]
            if len(labels) > len(self.free):
                return problem(503, "no-capacity", "0.01")
            bundle = f"b{len(self.bundles) + 1}"
            made = [self._lend(label, f"{bundle}-{unit}", seen.at) for unit, label in enumerate(labels, 1)]
            self.bundles[bundle], self.leases[key] = made, {**made[0], "bundle": bundle}
        bundle = self.leases[key]["bundle"]
        slots = [self._with_rest(each, seen) for each in self.bundles[bundle] if self._is_live(each)]
        together = seen.body.get("together", False)
        return self._granted({"bundle": bundle, "together": together, "slots": slots}, seen)

    def _lend(self, label: str, token: str, at: float) -> dict[str, Any]:
        slot_id = self.free.pop(0)
        self.lent[slot_id] = token
        return {
            "browserId": slot_id,
            "webSocketEndpoint": "ws://there",
            "labelKey": label,
            "matchedLabel": "gpu:a100",
            "nodeId": "n1",
            "leaseToken": token,
            "item": {"memoryGb": 80},
            "since": at,
        }

    def _is_live(self, lease: dict[str, Any]) -> bool:
        return self.lent.get(lease["browserId"]) == lease["leaseToken"]

    def _with_rest(self, lease: dict[str, Any], seen: Seen) -> dict[str, Any]:
        return {**lease, "ttlSeconds": round(lease["since"] + self.ttl_s - seen.at, 3)}

    def _granted(self, answer: dict[str, Any], seen: Seen) -> httpx.Response:
        return httpx.Response(200, json=answer, headers={"correlation-id": seen.body.get("runId", "made-up")})

    def _hold(self, node_id: str, slot_id: str, seen: Seen) -> Any:
        if node_id not in self.nodes:
            return problem(404, "unknown-node")
        if slot_id not in self.nodes[node_id]:
            return problem(404, "unknown-slot")
        self.held.pop(slot_id, None)
        if seen.method == "POST":
            self.held[slot_id] = seen.body["reason"]
        return {"slotId": slot_id}

    def _publish(self, slots: dict[str, dict[str, Any]], seen: Seen) -> dict[str, Any]:
        results = []
        for slot in seen.body.get("slots", ()):
            slots[slot["slotId"]] = slot
            self.held.pop(slot["slotId"], None)
            if token := seen.body.get("lent", {}).get(slot["slotId"]):
                self.lent[slot["slotId"]] = token
            status = "lent" if slot["slotId"] in self.lent else "published"
            results.append({"browserId": slot["slotId"], "labelKey": slot["labelKey"], "status": status})
        self.held |= seen.body.get("held", {})
        return {"slots": results}

    def _beat(self, seen: Seen) -> dict[str, Any]:
        node_id = seen.body["nodeId"]
        common = {"nodeId": node_id, "nextBeatMs": self.pace_ms, "drain": self.drain}
        if node_id not in self.nodes:
            return {**common, "known": False, "recycle": [], "version": 0}
        self.held = dict(seen.body.get("held", self.held))
        self.recycle = [slot_id for slot_id in self.recycle if slot_id not in seen.body.get("recycled", ())]
        if seen.body["version"] == self.version:
            return {**common, "known": True, "recycle": [], "version": self.version}
        return {**common, "known": True, "recycle": self.recycle, "lent": self.lent, "version": self.version}


def agent_of(hub: FakeHub, **options: Any) -> NodeAgent:
    """An agent of node `n1` with two slots of `gpu:a100`."""
    return NodeAgent("n1", **{"pools": {"gpu:a100": 2}, "url": "http://hub", "transport": hub.transport(), **options})


async def eventually(condition: Callable[[], Any], within_s: float = world.PATIENCE_S) -> None:
    """Wait for a condition without coroutines to be true."""

    async def holds() -> bool:
        return bool(condition())

    await world.eventually(holds, within_s)
