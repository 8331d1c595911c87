"""Every operation answers as its contract says, and the contract describes everything."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.contract.checking import DOCUMENT, Contract, named
from tests.contract.walk import Walk
from tests.world import PATIENCE_S


def test_every_operation_answers_as_its_schema_says(live_hub):
    contract = Contract()
    with httpx.Client(base_url=live_hub.url, timeout=PATIENCE_S) as http:
        walk = Walk(live_hub, http, contract.check)
        for act in (
            walk.nodes, walk.lending, walk.bundles, walk.holds, walk.rules, walk.teams, walk.queue, walk.looking,
            walk.pools, walk.operators, walk.tokens, walk.hooks, walk.work, walk.providers, walk.leaving,
        ):  # fmt: skip
            act()
    assert {name: call for name, call in named().items() if name not in contract.answered} == {}


def answer(document: Any, status: int = 200, kind: str = "application/json") -> httpx.Response:
    request = httpx.Request("GET", "http://hub/health/live")
    return httpx.Response(status, json=document, headers={"content-type": kind}, request=request)


@pytest.mark.parametrize(
    "wrong",
    [
        answer({"status": "live", "more": 1}),
        answer({}),
        answer({"status": "dead"}),
        answer({"status": "live"}, status=202),
        answer({"status": "live"}, kind="text/plain"),
        answer({"type": "x", "title": "y", "status": 503, "code": "grant-over"}, 503, kind="application/problem+json"),
    ],
)
def test_the_check_finds_an_answer_that_is_not_in_the_contract(wrong):
    Contract().check(answer({"status": "live"}))
    with pytest.raises(AssertionError):
        Contract().check(wrong)


def test_every_operation_parameter_and_member_has_a_description_and_an_example():
    lacking = []
    for name, schema in DOCUMENT["components"]["schemas"].items():
        lacking += [name] if not schema.get("description") else []
        for member, said in schema["properties"].items():
            if not (said.get("description", "").endswith(".") and said.get("examples", [None])[0] is not None):
                lacking.append(f"{name}.{member}")
    for methods in DOCUMENT["paths"].values():
        for operation in methods.values():
            name = operation["operationId"]
            lacking += [name] if not (operation["summary"] and operation["description"]) else []
            lacking += [
                f"{name}: {each['name']}"
                for each in operation.get("parameters", [])
                if not each["description"].endswith(".") or each["example"] is None
            ]
            contents = [operation.get("requestBody", {}), *operation["responses"].values()]
            lacking += [
                f"{name}: {kind}"
                for each in contents
                for kind, content in each.get("content", {}).items()
                if content.get("example") is None
            ]
    assert lacking == []


def test_every_operation_has_a_unique_name_and_says_who_may_call_it():
    operations = [each for methods in DOCUMENT["paths"].values() for each in methods.values()]
    assert len(named()) == len(operations)
    schemes = set(DOCUMENT["components"]["securitySchemes"])
    assert {scheme for each in operations for way in each["security"] for scheme in way} == schemes
    open_to_all = {each["operationId"] for each in operations if not each["security"]}
    assert open_to_all == {"getHealth", "getHubReadiness", "getLiveness", "getReadiness", "getMetrics"}
