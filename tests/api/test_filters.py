"""Filters of lists: one that cannot be read is refused, and never answered with everything."""

from __future__ import annotations

from urllib.parse import quote

import pytest

J = "/v1/joblib"
UNREADABLE = [
    ("/audit", "sinceUtc", ["2026-01-02T03:04:05 01:00", "nonsense", " ", "2026-13-01", "9999-99-99T00:00:00Z", "1"]),
    ("/audit", "skip", ["x", "-1", "1.5", ""]),
    ("/audit", "take", ["x", "0", ""]),
    ("/nodes", "detail", ["yes", "2", " 1", "on"]),
    ("/nodes?detail=1", "state", ["dead ", "ALIVE", ""]),
    ("/nodes?detail=1", "limit", ["x", "0", "-1"]),
    ("/nodes?detail=1", "cursor", ["x", "-1"]),
    ("/pools", "limit", ["x", "0"]),
    ("/pools", "offset", ["x", "-1"]),
    ("/queue", "label", ["a b", "a b:c"]),
    ("/queue", "tickets", ["x", "-1"]),
    ("/sessions", "limit", ["x", "0"]),
    ("/history", "kind", ["slots", " "]),
    ("/history", "worker", ["x", " "]),
    ("/history", "task", ["x", " "]),
    ("/history", "limit", ["x", "0"]),
    ("/autoscale/gpu:a100", "min", ["x", "-1"]),
    ("/admin/brake", "of", ["x", " "]),
    (f"{J}/rooms/lab/tasks", "status", ["x", ""]),
    (f"{J}/rooms/lab/tasks", "limit", ["x", "-1"]),
    (f"{J}/dead", "offset", ["x", "-1"]),
    (f"{J}/workers", "limit", ["x", "-1"]),
]


@pytest.mark.parametrize(("path", "name", "values"), UNREADABLE, ids=lambda value: str(value)[:30])
async def test_an_unreadable_filter_is_refused(api, path, name, values):
    for value in values:
        answer = await api.get(f"{path}{'&' if '?' in path else '?'}{written(name, value)}")
        assert answer.status_code in (400, 422), (value, answer.text[:200])


def written(name, value):
    """Return the member of a query as a careless program writes it: a plus stays one."""
    return f"{name}={quote(value, safe='+')}"


async def test_a_refusal_of_a_time_with_a_bare_plus_says_how_to_escape_the_plus(api):
    await api.put("/admin/sweeper", json={"expire": True})
    refused = await api.get("/audit?sinceUtc=2026-01-02T03:04:05+01:00")
    assert refused.status_code == 400
    assert refused.json()["detail"] == (
        "sinceUtc must be a time such as 2026-01-02T03:04:05Z; a + in a query is written %2B"
    )
    escaped = await api.get("/audit", params={"sinceUtc": "2026-01-02T03:04:05+01:00"})
    assert escaped.status_code == 200
    assert escaped.json() != []


async def test_a_misspelt_only_if_free_parameter_is_refused_and_withdraws_no_slot(api):
    slot = {"labelKey": "gpu:a100", "slotId": "s1"}
    assert (await api.post("/node/register", json={"nodeId": "rack-7", "slots": [slot]})).is_success
    assert (await api.delete("/node/rack-7/slots/s1", params={"onlyFree": "yes"})).status_code == 400
    assert (await api.post("/session/borrow", json={"labelKey": "gpu:a100"})).is_success
