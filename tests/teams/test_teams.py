"""Teams at the API: who is next, ceilings, recalls, and what hubs tell each other and the store."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hub.core import Hub
from tests.teams.conftest import ADMIN, POOL, SECRETS, Teams
from tests.world import eventually


def step(redis: Any, seconds: float) -> None:
    """Move the hub clock on."""
    redis.hincrby("hub:store", "clock_ms", int(seconds * 1000))


async def why(fleet: Teams, ticket: str) -> dict[str, Any]:
    answer = await fleet.api.get(f"/why/ticket/{ticket}", headers=ADMIN)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_a_row_is_set_shown_and_removed(fleet: Teams) -> None:
    await fleet.node("s1", "s2", "s3", "s4")
    row = await fleet.row("ml", guarantee=1, ceiling=3, weight=2)
    assert (row["team"], row["label"], row["guarantee"], row["ceiling"], row["weight"]) == ("ml", "gpu:*", 1, 3, 2)
    assert (row["setBy"], "warning" in row) == ("ann", False)
    await fleet.row("web")
    await fleet.held("web")
    await fleet.held("")
    found = await fleet.now()
    counts = {team: (each["held"], each["waiting"], each["due"]) for team, each in found.items()}
    assert counts == {"ml": (0, 0, 2.0), "web": (1, 0, 1.0), "": (1, 0, 1.0)}
    assert {found["ml"]["weight"], found["ml"]["setAtUtc"] == row["setAtUtc"]} == {2, True}
    assert [found[""][name] for name in ("guarantee", "ceiling", "weight", "setBy", "setAtUtc")] == [None] * 5
    removed = await fleet.api.delete("/admin/teams/ml", params={"label": "gpu:*"}, headers=ADMIN)
    assert removed.json() == {"removed": "ml", "label": "gpu:*"}
    assert "ml" not in await fleet.now()
    entries = (await fleet.api.get("/audit", headers=ADMIN)).json()
    acts = [each for each in entries if each["action"].startswith("team.")]
    assert [each["action"] for each in acts] == ["team.remove", "team.set", "team.set"]
    facts = acts[2]["details"]
    assert {name: facts[name] for name in ("team", "pattern", "guarantee", "ceiling", "weight")} == {
        "team": "ml", "pattern": "gpu:*", "guarantee": "1", "ceiling": "3", "weight": "2",
    }  # fmt: skip


async def test_rows_are_set_and_shown_in_neutral_names_as_well(fleet: Teams) -> None:
    body = {"label": "gpu:*", "guarantee": 1}
    answer = await fleet.api.put("/v2/admin/teams/ml", json=body, headers=ADMIN)
    assert (answer.status_code, answer.json()["label"], "setAt" in answer.json()) == (200, "gpu:*", True)
    (row,) = (await fleet.api.get("/v2/teams", headers=ADMIN)).json()["teams"]
    assert (row["team"], row["guarantee"], row["ceiling"]) == ("ml", 1, None)


async def test_guarantees_above_the_supply_are_taken_with_a_warning(fleet: Teams) -> None:
    await fleet.node("s1", "s2")
    await fleet.node("c1", "c2", pool="cpu:big")
    await fleet.row("ml", guarantee=1)
    assert "warning" not in await fleet.row("web", "gpu:a100", guarantee=2)
    warned = await fleet.row("ml", "gpu:a100", guarantee=1)
    words = "the guarantees under gpu:a100 are 3 slots together, and 2 are published"
    assert warned["warning"] == words
    warnings = (await fleet.api.get("/teams", headers=ADMIN)).json()["warnings"]
    assert warnings == [words, "the guarantees under gpu:* are 1 slot together, and 0 are published"]


async def test_freed_slots_go_to_teams_by_guarantee_then_by_weight(fleet: Teams) -> None:
    slots = [f"s{n}" for n in range(6)]
    await fleet.node(*slots)
    leases = [await fleet.held("old") for _ in slots]
    await fleet.row("small", guarantee=1)
    await fleet.row("large", weight=3)
    calls = {team: [await fleet.come(team) for _ in range(6)] for team in ("plain", "large", "small")}

    async def served() -> dict[str, int]:
        return {team: sum(call.done() for call in each) for team, each in calls.items()}

    async def free(number: int) -> dict[str, int]:
        before = sum((await served()).values())
        for lease in [leases.pop() for _ in range(number)]:
            await fleet.give_back("old", lease)

        async def all_served() -> bool:
            return sum((await served()).values()) == before + number

        await eventually(all_served)
        return await served()

    assert await free(1) == {"plain": 0, "large": 0, "small": 1}
    assert await free(5) == {"plain": 1, "large": 4, "small": 1}


async def test_a_team_waits_at_its_ceiling_beside_free_slots(fleet: Teams) -> None:
    await fleet.node("s1", "s2", "s3")
    await fleet.row("ml", ceiling=1)
    lease = await fleet.held("ml")
    refused = await fleet.ask("ml", maxWaitSeconds=0)
    assert (refused.status_code, refused.json()["code"]) == (503, "no-capacity")
    words = "team ml has 1 of the 1 slots that its ceiling under gpu:* allows"
    assert refused.json()["hint"] == words
    waiting = await fleet.come("ml", key="k1")
    told = await why(fleet, "k1")
    assert words in told["because"]
    assert told["next"][0]["rule"] == "When a lease of team ml ends, or its ceiling is raised (hub team set)."
    assert (await fleet.now())["ml"]["share"] is None
    await fleet.held("web")
    await fleet.give_back("ml", lease)
    assert (await waiting).status_code == 200
    assert (await fleet.ask("other", "gpu:h100", maxWaitSeconds=0)).json()["hint"].startswith("no pool serves")


async def test_a_bundle_that_passes_the_ceiling_waits_and_is_told_why(fleet: Teams) -> None:
    await fleet.node("s1", "s2", "s3", "s4")
    await fleet.row("ml", ceiling=2)
    await fleet.held("ml")
    headers = await fleet.headers("ml")

    async def refused(count: int) -> str:
        wish = {"parts": [{"label": POOL, "count": count}], "maxWaitSeconds": 0}
        answer = await fleet.api.post("/bundles", json=wish, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (503, "no-capacity")
        return str(answer.json()["hint"])

    assert await refused(2) == "team ml has 1 of the 2 slots that its ceiling under gpu:* allows, and it wants 2 more"
    never = (
        "it wants 3 under gpu:*, and the ceiling of team ml there is 2, so it is never served as things are "
        "(hub team set)"
    )
    assert await refused(3) == never
    wish = {"parts": [{"label": POOL}, {"label": POOL, "count": 2}]}
    call = asyncio.create_task(fleet.api.post("/bundles", json=wish, headers={**headers, "idempotency-key": "k1"}))
    fleet.calls.append(call)

    async def waits() -> bool:
        return await fleet.waiting() == 1

    await eventually(waits)
    told = await why(fleet, "k1")
    assert told["because"].endswith(f"; {never}.")
    assert [each["rule"] for each in told["next"]][:-1] == ["When the ceiling of team ml is raised (hub team set)."]
    await fleet.row("ml", ceiling=4)
    assert len((await call).json()["slots"]) == 3


async def test_a_recall_is_told_and_ends_the_newest_lease_of_the_team_furthest_above(
    fleet: Teams, hub: Hub, redis: Any
) -> None:
    await fleet.node("s1", "s2", "s3")
    await fleet.row("ml", guarantee=1)
    await fleet.held("other", ttlSeconds=300)
    await fleet.held("web", ttlSeconds=300)
    step(redis, 1)
    last = await fleet.held("web", ttlSeconds=300)
    held = {"browserId": last["browserId"], "leaseToken": last["leaseToken"]}
    watch = {"leases": [held], "waitSeconds": 20, "ending": {}}
    watching = asyncio.create_task(fleet.api.post("/leases/watch", json=watch, headers=await fleet.headers("web")))
    waiting = await fleet.come("ml", key="k1")
    (told,) = (await watching).json()["ending"]
    assert (told["browserId"], told["reason"]) == (last["browserId"], "recall")
    assert 290 < told["secondsLeft"] <= 301
    assert (await fleet.now())["web"]["recalled"] == 1
    step(redis, 100)
    renewed = {**held, "ttlSeconds": 300}
    answer = await fleet.api.post("/session/renew", json=renewed, headers=await fleet.headers("web"))
    assert answer.json()["ttlSeconds"] == pytest.approx(200, abs=3)
    shown = (await fleet.api.get(f"/sessions/{last['browserId']}", headers=ADMIN)).json()
    assert shown["endsBy"] == "recall"
    assert "is recalled" in str((await fleet.api.get(f"/why/slot/{last['browserId']}", headers=ADMIN)).json()["next"])
    told = await why(fleet, "k1")
    assert "team ml has 0 slots under gpu:*, below its guarantee of 1" in told["because"]
    assert "1 lease of another team is recalled" in told["because"]
    step(redis, 202)
    await hub.rules.enforce()
    watch = {"leases": [held], "waitSeconds": 0}
    (over,) = (await fleet.api.post("/leases/watch", json=watch, headers=await fleet.headers("web"))).json()["over"]
    assert over["because"] == "it was recalled for a team below its guarantee"
    step(redis, 10)
    given = (await waiting).json()
    assert given["browserId"] == last["browserId"]
    events = [(each["event"], each.get("why")) for _, each in redis.xrange("hub:history")]
    assert [each for each in events if each[1] == "recall"] == [("grant.ending", "recall"), ("grant.ended", "recall")]


async def test_a_recall_is_taken_back_when_nobody_lacks_anything(fleet: Teams, hub: Hub, redis: Any) -> None:
    await fleet.node("s1", "s2")
    await fleet.row("ml", guarantee=1)
    first = await fleet.held("web", ttlSeconds=300)
    step(redis, 1)
    second = await fleet.held("web", ttlSeconds=300)
    waiting = await fleet.come("ml")
    asked = {"leases": [{name: second[name] for name in ("browserId", "leaseToken")}], "waitSeconds": 20, "ending": {}}
    headers = await fleet.headers("web")
    (told,) = (await fleet.api.post("/leases/watch", json=asked, headers=headers)).json()["ending"]
    asked["ending"] = {second["browserId"]: told["end"]}
    watching = asyncio.create_task(fleet.api.post("/leases/watch", json=asked, headers=headers))
    await fleet.give_back("web", first)
    assert (await waiting).json()["browserId"] == first["browserId"]
    await hub.teams.balance()
    assert [(each["reason"], each["end"]) for each in (await watching).json()["ending"]] == [("", "")]
    assert (await fleet.now())["web"]["recalled"] == 0


async def test_rows_hold_at_every_hub_and_say_which_team_is_before(fleet: Teams, make_api: Any) -> None:
    await fleet.node("s1", "s2")
    async with make_api(**SECRETS) as api:
        await fleet.row("ml", ceiling=1)
        assert (await fleet.now(api))["ml"]["ceiling"] == 1
        other = Teams(api)
        other.shown = fleet.shown
        await other.held("ml")
        assert (await fleet.ask("ml", maxWaitSeconds=0)).status_code == 503
        await other.held("web")
        await fleet.row("ml")
        await fleet.come("web", key="k1")
        await fleet.come("ops", key="k2")
        assert (
            "team web has 1 slot under gpu:*, at the weight 1; team ops is before it with 0"
            in (await why(fleet, "k1"))["because"]
        )
        facts = (await why(fleet, "k2"))["facts"]["teams"]
        assert [(each["team"], each["held"], each["before"]) for each in facts] == [("ops", 0, [])]


async def test_hubs_give_the_rows_back_to_a_store_that_lost_them(fleet: Teams, hub: Hub, redis: Any) -> None:
    await fleet.node("s1")
    await fleet.row("ml", guarantee=1)
    await fleet.held("ml")
    await hub.teams.balance()
    redis.delete("hub:teams", "hub:team_shares:gpu:*", "hub:team_leases:gpu:*\tml", "hub:team_turns:gpu:*")
    redis.hset("hub:store", mapping={"teams": "", "teams_number": ""})
    assert await hub.teams.all() == []
    await hub.teams.recall()
    found = (await fleet.now())["ml"]
    assert (found["guarantee"], found["setBy"], found["held"]) == (1, "ann", 1)
    await fleet.row("ml", guarantee=2)
    await hub.teams.recall()  # it knows an earlier state, and changes nothing
    assert (await fleet.now())["ml"]["guarantee"] == 2


async def test_metrics_name_what_teams_hold_and_how_many_wait(fleet: Teams) -> None:
    await fleet.node("s1")
    await fleet.row("ml")
    await fleet.held("ml")
    await fleet.come("ml")
    text = (await fleet.api.get("/metrics", headers=ADMIN)).text
    assert 'hub_team_leases{label="gpu:*",team="ml"} 1.0' in text
    assert 'hub_team_waiting{label="gpu:*",team="ml"} 1.0' in text


NONSENSE = {
    "nothing": ({}, "missing label: the pattern of pools, such as gpu:*"),
    "blank in the label": ({"label": "gpu *"}, "label must be 1 to 200 printable characters without blanks"),
    "a negative guarantee": ({"label": "gpu:*", "guarantee": -1}, "guarantee must be a whole number from 0"),
    "half a slot": ({"label": "gpu:*", "guarantee": 1.5}, "guarantee must be a whole number from 0"),
    "text": ({"label": "gpu:*", "guarantee": "4"}, "guarantee must be a whole number from 0"),
    "truth": ({"label": "gpu:*", "ceiling": True}, "ceiling must be a whole number from the guarantee"),
    "a ceiling below": ({"label": "gpu:*", "guarantee": 3, "ceiling": 2}, "ceiling 2 is below the guarantee 3"),
    "no weight": ({"label": "gpu:*", "weight": 0}, "weight must be a number from 0.01 to 1000"),
    "too heavy": ({"label": "gpu:*", "weight": 1001}, "weight must be a number from 0.01 to 1000"),
    "a number as label": ({"label": 7}, "label must be 1 to 200 printable characters without blanks"),
}


@pytest.mark.parametrize(("body", "text"), NONSENSE.values(), ids=NONSENSE)
async def test_a_nonsense_body_is_refused_in_one_sentence(fleet: Teams, body: dict[str, Any], text: str) -> None:
    answer = await fleet.api.put("/admin/teams/ml", json=body, headers=ADMIN)
    assert (answer.status_code, answer.json()["detail"].startswith(text)) == (400, True), answer.text
    assert await fleet.now() == {}


@pytest.mark.parametrize("team", ["%20ml", "a" * 101, "a%09b"])
async def test_a_nonsense_team_is_refused(fleet: Teams, team: str) -> None:
    answer = await fleet.api.put(f"/admin/teams/{team}", json={"label": "gpu:*"}, headers=ADMIN)
    assert (answer.status_code, answer.json()["detail"].startswith("team must ")) == (400, True), answer.text
    answer = await fleet.api.delete("/admin/teams/ml", headers=ADMIN)
    assert (answer.status_code, answer.json()["code"]) == (400, "missing-member")


async def test_there_are_at_most_so_many_rows(fleet: Teams, redis: Any) -> None:
    redis.hset("hub:teams", mapping={f"p{n}\tml": "{}" for n in range(256)})
    answer = await fleet.api.put("/admin/teams/ml", json={"label": "gpu:*"}, headers=ADMIN)
    assert answer.status_code == 400
    assert answer.json()["detail"].startswith("there are 256 rows of teams already")


async def test_bundles_that_wait_are_counted_for_their_team(fleet: Teams) -> None:
    await fleet.node("s1", "s2")
    await fleet.node("c1", pool="cpu:big")
    await fleet.row("ml", guarantee=1)
    for _ in range(2):
        await fleet.held("ml")
    await fleet.held("ml", "cpu:big")

    async def bundle(team: str, *labels: str) -> None:
        sent = {"parts": [{"label": label} for label in labels], "maxWaitSeconds": 60}
        call = fleet.api.post("/v2/bundles", json=sent, headers=await fleet.headers(team))
        before = await fleet.waiting_bundles()
        fleet.calls.append(asyncio.create_task(call))

        async def waits() -> bool:
            assert not fleet.calls[-1].done(), fleet.calls[-1].result().text
            return await fleet.waiting_bundles() > before

        await eventually(waits)

    await fleet.come("ml", key="k")
    await bundle("ml", POOL, POOL)
    await bundle("web", POOL, "cpu:big")
    await bundle("web", "cpu:big")
    found = await fleet.now()
    assert {team: each["waiting"] for team, each in found.items()} == {"ml": 2, "web": 1}
    assert [found["web"][name] for name in ("guarantee", "held", "share")] == [None, 0, 0.0]
    text = (await fleet.api.get("/metrics", headers=ADMIN)).text
    assert 'hub_team_waiting{label="gpu:*",team="web"} 1.0' in text
    assert (await why(fleet, "k"))["facts"]["teams"][0]["before"] == []


async def test_why_names_the_room_that_is_kept_for_a_bundle_of_the_team(make_api: Any) -> None:
    async with make_api(**SECRETS, borrow_queue_timeout_s=60, bundle_patience_s=0) as api:
        fleet = Teams(api)
        await room_is_kept(fleet)
        await fleet.go_home()


async def room_is_kept(fleet: Teams) -> None:
    await fleet.node("s1", "s2", "s3")
    await fleet.row("ml", ceiling=2)
    lease = await fleet.held("ml")
    sent = {"parts": [{"label": POOL, "count": 2}], "maxWaitSeconds": 600}
    headers = await fleet.headers("ml")
    fleet.calls.append(asyncio.create_task(fleet.api.post("/v2/bundles", json=sent, headers=headers)))

    async def waits() -> bool:
        return await fleet.waiting_bundles() == 1

    await eventually(waits)
    hub = fleet.api._transport.app.app.state.serving.hub  # type: ignore[attr-defined]
    await hub.queue.look_after()
    answer = await fleet.ask("ml", maxWaitSeconds=0)
    said = "team ml has 1 of the 2 slots that its ceiling under gpu:* allows, and room for 2 is kept for a bundle of it"
    assert (answer.status_code, answer.json()["hint"]) == (503, said)
    await fleet.come("ml", key="k")
    assert said in (await why(fleet, "k"))["because"]
    await fleet.give_back("ml", lease)
    await hub.queue.look_after()
    assert len((await fleet.calls[0]).json()["slots"]) == 2
