"""The grammar of labels and the syntax of caps, row by row; and that the wire refuses with the same reason codes."""

from __future__ import annotations

from typing import Any

import pytest

from hub.capacity.labels import LENGTH_MAX, parse_caps, parse_kinds, parse_label
from hub.errors import InvalidLabel
from tests.world import borrow, publish

BROWSERS = parse_kinds("Chromium,Firefox,WebKit")
CHECKED: dict[str, Any] = {"kinds": BROWSERS}
UNCHECKED: dict[str, Any] = {}

ACCEPTED = [
    ("P1", "Pay:Chromium", CHECKED, "Pay:Chromium"),
    ("P2", "  Pay : firefox : Prod  ", CHECKED, "Pay:firefox:Prod"),
    ("P3", "Pay:WEBKIT:Prod", CHECKED, "Pay:WEBKIT:Prod"),
    ("P5", "Pay:Chromium:a:b:c:d:e:f", CHECKED, "Pay:Chromium:a:b:c:d:e:f"),
    ("P8", "Pay:Opera:Prod", UNCHECKED, "Pay:Opera:Prod"),
    ("P20", "Pay:*:Prod", UNCHECKED, "Pay:*:Prod"),
    ("P20 with wildcards", "Pay:*:Prod", {**CHECKED, "wildcards": True}, "Pay:*:Prod"),
    ("P21", "Pay:Chromium:a*b", CHECKED, "Pay:Chromium:a*b"),
    ("P22", "Pay:Chromium:été", CHECKED, "Pay:Chromium:été"),
    ("P23", "Pay:WebKit:Prod", {**CHECKED, "case": "lower"}, "pay:webkit:prod"),
    ("P24", "Pay:WebKit:Prod", {**CHECKED, "case": "upper"}, "PAY:WEBKIT:PROD"),
    ("anything goes", "render:gpu-a100:batch", UNCHECKED, "render:gpu-a100:batch"),
]
REFUSED = [
    ("P4", "Pay", CHECKED, "too-few"),
    ("P6", "Pay:Chromium:a:b:c:d:e:f:g", CHECKED, "too-many"),
    ("P7", "Pay:Opera:Prod", CHECKED, "kind-not-allowed"),
    ("P9", ":Pay:WebKit", CHECKED, "leading-colon"),
    ("P10", "Pay:WebKit:Prod:", CHECKED, "trailing-colon"),
    ("P11", "Pay:WebKit: ", CHECKED, "trailing-colon"),
    ("P12", "Pay::WebKit", CHECKED, "double-colon"),
    ("P13", "Pay: :WebKit", CHECKED, "empty-segment"),
    ("P14", "Pay:Web Kit", CHECKED, "forbidden-char"),
    ("P15", "Pay:WebKit:Pr\tod", CHECKED, "forbidden-char"),
    ("P16", "", CHECKED, "empty"),
    ("P17", "   ", CHECKED, "empty"),
    ("P18", None, CHECKED, "null"),
    ("P19", "Pay:*:Prod", CHECKED, "kind-not-allowed"),
    ("P25", "Pay:WebKit", {**CHECKED, "segments_min": 3}, "too-few"),
    ("a colon alone", ":", UNCHECKED, "leading-colon"),
    ("a colon at both ends", ":a:", UNCHECKED, "leading-colon"),
    ("a line feed", "a:b\nc", UNCHECKED, "forbidden-char"),
    ("a carriage return", "a:b\rc", UNCHECKED, "forbidden-char"),
    ("a NUL byte", "a:b\0c", UNCHECKED, "forbidden-char"),
    ("an escape", "a:\x1b[31m", UNCHECKED, "forbidden-char"),
    ("blank before wrong kind", "Pay:Op era", CHECKED, "forbidden-char"),
    ("too many before an empty one", "a:b:c:d:e:f:g: :i", UNCHECKED, "too-many"),
    ("ten thousand segments", ":".join("x" * 10_000), UNCHECKED, "too-many"),
    ("too long", "a:" + "b" * LENGTH_MAX, UNCHECKED, "too-long"),
]


@pytest.mark.parametrize(
    ("given", "options", "normal"), [row[1:] for row in ACCEPTED], ids=[row[0] for row in ACCEPTED]
)
def test_a_valid_label_is_normalised(given, options, normal):
    label = parse_label(given, **options)
    assert (label.text, label.segments) == (normal, tuple(normal.split(":")))


@pytest.mark.parametrize(("given", "options", "reason"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_an_invalid_label_is_refused_with_the_code_of_the_first_rule_it_breaks(given, options, reason):
    with pytest.raises(InvalidLabel) as caught:
        parse_label(given, **options)
    assert caught.value.facts["reason"] == reason
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("given", "reason"), [(row[1], row[3]) for row in REFUSED if row[1] and row[2] is UNCHECKED], ids=repr
)
@pytest.mark.parametrize("path", ["/session/borrow", "/session/return"])
async def test_the_refusal_of_a_bad_label_names_the_reason(api, path, given, reason):
    answer = await api.post(path, json={"labelKey": given, "browserId": "s1"})
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem["reason"]) == (400, "invalid-label", reason)
    assert problem["detail"].startswith("invalid labelKey:")


async def test_kinds_are_checked_by_borrow_and_publish_but_not_by_return_and_restart(make_api):
    async with make_api(label_kinds="Chromium,Firefox,WebKit") as api:
        refused = await borrow(api, "Pay:Opera:Prod")
        published = await api.post(
            "/node/register", json={"nodeId": "n1", "slots": [{"labelKey": "Pay:Opera", "slotId": "s1"}]}
        )
        assert [(each.status_code, each.json()["reason"]) for each in (refused, published)] == [
            (400, "kind-not-allowed")
        ] * 2
        returned = await api.post("/session/return", json={"labelKey": "Pay:Opera:Prod", "browserId": "s1"})
        restarted = await api.post("/admin/pools/Pay:Opera:Prod/restart")
        assert (returned.status_code, restarted.status_code) == (200, 200)


async def test_kinds_are_compared_without_case_and_the_pool_keeps_its_spelling(make_api):
    async with make_api(label_kinds="Chromium,Firefox,WebKit") as api:
        await publish(api, "n1", **{"Pay:WEBKIT:Prod": ["s1"]})
        assert (await borrow(api, "Pay:WebKit:Prod")).status_code == 503
        assert (await borrow(api, "Pay:WEBKIT:Prod")).json()["browserId"] == "s1"


CAPS = [
    ("Pay:Chromium:Prod=2, Shop : WebKit : Dev = 1", {"Pay:Chromium:Prod": 2, "Shop:WebKit:Dev": 1}),
    ("Pay:Chromium=0,Pay:Firefox=-3,Pay:WebKit=x", {}),
    ("Crm:Firefox=4=5,broken,=3", {}),
    ("Maps:Chromium=1,Maps:Chromium=6", {"Maps:Chromium": 6}),
    ("poolX=2", {"poolX": 2}),
    ("", {}),
    (" , ,", {}),
    ("a:b=1_0", {}),
    ("a:b=٣", {}),
    ("a:b=1.0", {}),
    ("a:b=+2", {"a:b": 2}),
    ("a:b=++2", {}),
    ("a:b=" + "9" * 5000, {}),
]


@pytest.mark.parametrize(("given", "caps"), CAPS, ids=[row[0][:40] for row in CAPS])
def test_the_list_of_caps_is_read_by_its_syntax(given, caps):
    assert parse_caps(given) == caps
