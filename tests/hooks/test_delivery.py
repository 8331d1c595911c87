"""The delivery of messages: what is told, in which order, how often, and what becomes of it while it is not taken."""

from __future__ import annotations

import asyncio

import pytest
from standardwebhooks import Webhook

from hub.errors import QuotaExceeded
from hub.hooks import delivery as module
from hub.hooks.messages import TYPES, new_secret
from hub.observability import metrics
from tests.world import PATIENCE_S, eventually

GRANT = {"slot": "s1", "node": "n1", "pool": "gpu:a100", "label": "gpu:a100", "run": "r1"}


def counted(outcome: str) -> float:
    return metrics.registry.get_sample_value("hub_hook_messages_total", {"outcome": outcome}) or 0


async def test_a_message_is_signed_and_names_its_type_and_its_object(add_hook, note, deliver, receiver):
    secret = new_secret()
    await add_hook(secret=secret)
    await note(
        "grant.lent", **GRANT, user="ann", team="ml", name="ann@desk:train", ttl_ms="60000", token="17", leaseToken="17"
    )
    await deliver()
    (got,) = receiver.heard
    said = Webhook(secret).verify(got.body, got.headers)  # raises for another secret, body or time
    assert said["type"] == "lease.granted"
    assert said["data"] == {
        "slotId": "s1", "nodeId": "n1", "pool": "gpu:a100", "label": "gpu:a100", "runId": "r1",
        "user": "ann", "team": "ml", "name": "ann@desk:train", "ttlSeconds": 60,
    }  # fmt: skip
    assert said["timestamp"].endswith("Z")
    assert got.headers["content-type"] == "application/json"
    assert secret not in str(got)


@pytest.mark.parametrize(
    ("event", "facts", "on"),
    [
        ("grant.lent", GRANT, "lease.granted"),
        ("grant.handed", {**GRANT, "ticket": "t1"}, "lease.granted"),
        ("grant.ending", {**GRANT, "why": "max-hold", "ends_in_ms": "60000"}, "lease.ending"),
        *((f"grant.{how}", GRANT, "lease.ended") for how in ("returned", "lapsed", "ended", "undone")),
        ("grant.handed", {**GRANT, "ticket": "t1"}, "ticket.turn"),
        ("node.expired", {"node": "n1"}, "node.expired"),
        ("slot.unwell", {"slot": "s1", "node": "n1", "reason": "fan"}, "slot.unwell"),
        ("task.dead", {"task": "0" * 32, "job": "@global:a:B", "why": "boom"}, "task.dead"),
    ],
)
async def test_each_event_makes_the_message_of_its_type(event, facts, on, add_hook, note, deliver, receiver):
    await add_hook(on=on)
    await note(event, **facts)
    await note("slot.published", **GRANT)  # no hook can ask for it
    await deliver()
    assert [each.said["type"] for each in receiver.heard] == [on]


async def test_a_hook_is_told_only_of_its_label_and_its_user(add_hook, note, deliver, receiver):
    await add_hook(on=",".join(TYPES), label="gpu:*", user="ann")
    await note("grant.lent", **GRANT, user="ann")
    await note("grant.lent", **GRANT, user="bob")
    await note("grant.lent", **GRANT)
    await note("grant.lent", **{**GRANT, "label": "cpu:x", "pool": "cpu:x"}, user="ann")
    await note("grant.lent", **{**GRANT, "slot": "s2", "label": "any:x", "pool": "gpu:a100:80g"}, user="ann")
    await note("node.expired", node="n1")
    await deliver()
    assert sorted(each.said["data"]["slotId"] for each in receiver.heard) == ["s1", "s2"]


@pytest.mark.parametrize(
    ("pattern", "label", "fits"),
    [
        ("gpu:a100", "gpu:a100", True),
        ("gpu:a100", "gpu:a100:80g", False),
        ("gpu:*", "gpu:a100:80g", True),
        ("gpu:*", "gpux:a", False),
        ("gpu:*:80g", "gpu:a100:80g", True),
        ("gpu:*:80g", "gpu:a100:x:80g", False),
        ("gpu-1.5:*", "gpu-1.5:a", True),
        ("gpu-1.5:*", "gpu-1x5:a", False),
        ("g%:*", "g%:ü", True),
        ("*:a100", "gpu:a100", True),
        ("*:a100", "gpu:x:a100", False),
        ("*:*:80g", "gpu:a100:80g", True),
        ("*:*:*", "gpu:a100", False),
        ("gpu:*", "gpu", False),
        ("g*u:a*0", "gpu:a100", False),  # a star is a segment, and within one a character
        ("g*u:a*0", "g*u:a*0", True),
    ],
)
async def test_a_pattern_fits_the_labels_that_it_describes(pattern, label, fits, add_hook, note, deliver, receiver):
    await add_hook(label=pattern)
    await note("grant.lent", **{**GRANT, "label": label, "pool": "other:pool"})
    await deliver()
    assert bool(receiver.heard) == fits


async def test_a_pattern_with_many_stars_within_segments_is_matched_at_once(add_hook, note, deliver, receiver):
    """Tried as a pattern of text, each star would double the time for which Redis answers nobody."""
    stars, letters = "*a" * 40, "a" * 70
    await add_hook(label=f"{stars}:{stars}:{stars}b:*")
    await note("grant.lent", **{**GRANT, "slot": "s1", "label": f"{letters}:{letters}:{letters}:x"})
    await note("grant.lent", **{**GRANT, "slot": "s2", "label": f"{stars}:{stars}:{stars}b:x"})
    async with asyncio.timeout(PATIENCE_S):
        await deliver()
    assert list(receiver.objects()) == ["s2"]


async def test_messages_of_an_object_come_in_order_and_those_of_others_are_not_held_up(
    add_hook, note, deliver, step, receiver
):
    await add_hook()
    for slot in ("s1", "s2"):
        await note("grant.lent", **{**GRANT, "slot": slot})
        await note("grant.returned", **{**GRANT, "slot": slot})
    receiver.answer = lambda got: 500 if got.said["data"]["slotId"] == "s1" else 200
    await deliver()
    assert receiver.objects() == {"s1": ["lease.granted"], "s2": ["lease.granted", "lease.ended"]}
    receiver.answer = lambda _: 200
    await deliver()  # not due yet
    assert len(receiver.heard) == 3
    await step(7)
    await deliver()
    assert receiver.objects()["s1"] == ["lease.granted", "lease.ended"]
    first, again = [each for each in receiver.heard if each.said["data"]["slotId"] == "s1"][:2]
    assert (first.id, first.body) == (again.id, again.body)


async def test_a_message_is_tried_for_a_day_ever_more_rarely_and_then_the_hook_is_paused(
    hub, add_hook, note, deliver, step, receiver
):
    hook = await add_hook()
    await note("grant.lent", **GRANT)
    receiver.answer = lambda _: 500
    tries, hours = [], 0
    await deliver()
    for _ in range(24 * 60 + 90):  # minutes
        await step(60)
        before = len(receiver.heard)
        await deliver()
        tries.append(len(receiver.heard) - before)
        if (await hub.hooks.get(hook))["paused"]:
            break
        hours += 1 / 60
    assert 24 <= hours + 1 / 60 < 25.3
    assert 25 < len(receiver.heard) < 45
    assert max(tries[120:]) == 1
    assert sum(tries[120:180]) <= 2
    assert len({each.id for each in receiver.heard}) == 1
    (stuck,) = await hub.hooks.stuck()
    assert (stuck["id"], stuck["paused"]) == (hook, "it took no message for a day: it answered 500")
    assert stuck["waiting"] == "1"
    receiver.answer = lambda _: 200
    await step(10_000)
    await deliver()
    assert (await hub.hooks.get(hook))["waiting"] == "1"  # paused is paused
    await hub.hooks.pause(hook, "")
    await deliver()
    shown = await hub.hooks.get(hook)
    assert (shown["waiting"], shown["paused"], shown["last"]) == ("0", "", "ok")
    assert await hub.hooks.stuck() == []


async def test_a_hook_that_answers_410_is_paused_at_once_and_keeps_its_messages(hub, add_hook, note, deliver, receiver):
    hook = await add_hook()
    receiver.answer = lambda _: 410
    await note("grant.lent", **GRANT)
    await deliver()
    await note("grant.returned", **GRANT)
    await deliver()
    shown = await hub.hooks.get(hook)
    assert (shown["paused"], shown["waiting"], len(receiver.heard)) == ("it answered 410", "2", 1)


async def test_a_hook_that_hangs_does_not_hold_up_another(monkeypatch, hub, add_hook, note, delivery, receiver):
    monkeypatch.setattr("hub.hooks.sending.TIMEOUT_S", 60.0)  # longer than the quick one can take
    slow = await add_hook(url=receiver.url + "/slow")
    quick = await add_hook(url=receiver.url + "/quick")
    receiver.answer = lambda got: None if got.path.endswith("/slow") else 200
    for number in range(40):
        await note("grant.lent", **{**GRANT, "slot": f"s{number}"})
    while await delivery.relay():
        pass

    async def taken() -> bool:
        await delivery.take()
        return (await hub.hooks.get(quick))["delivered"] == "40"

    await eventually(taken)
    assert (await hub.hooks.get(slow))["last"] == ""  # it still has its turn
    receiver.over.set()
    await asyncio.gather(*delivery._sending)
    assert (await hub.hooks.get(slow))["last"] == "it does not answer (RemoteProtocolError)"


async def test_a_try_has_an_end(monkeypatch, hub, add_hook, note, deliver, receiver):
    monkeypatch.setattr("hub.hooks.sending.TIMEOUT_S", 0.2)
    hook = await add_hook()
    receiver.answer = lambda _: None
    await note("grant.lent", **GRANT)
    await deliver()
    assert (await hub.hooks.get(hook))["last"] == "it did not answer within 0.2 s"


async def test_a_redirect_is_not_followed(hub, add_hook, note, deliver, receiver):
    hook = await add_hook()
    receiver.answer = lambda _: 307
    await note("grant.lent", **GRANT)
    await deliver()
    assert [each.path for each in receiver.heard] == ["/hook"]
    assert (await hub.hooks.get(hook))["last"] == "it answered 307"


async def test_all_hooks_together_get_at_most_100_messages_a_second(hub, add_hook, note, delivery, receiver):
    for _ in range(3):
        await add_hook()
    for number in range(60):
        await note("grant.lent", **{**GRANT, "slot": f"s{number}"})
    while await delivery.relay():
        pass
    given: dict[str, int] = {}
    for _ in range(1000):
        before = sum(given.values())
        _, *rest = await delivery._take(turn="t", turn_ms=0, most=16, rate=module.RATE)
        second = await hub.store.read("HGET", hub.store.keys.store, "hooks_second")
        given[second] = given.get(second, 0) + max(0, len(rest) - 4)
        if sum(given.values()) == before and len(given) > 1:
            break
    assert max(given.values()) == 100


async def test_a_full_queue_drops_its_oldest_messages_and_counts_them(hub, redis, add_hook, note, deliver, delivery):
    hook = await add_hook()
    queue = hub.store.keys.hook_queue(hook)
    for number in range(5000):
        redis.xadd(queue, {"type": "lease.granted", "id": f"{number}-0", "object": "slot:old", "slot": "old"})
    before = counted("dropped")
    for slot in ("s1", "s2"):
        await note("grant.lent", **{**GRANT, "slot": slot})
    await delivery.relay()
    shown = await hub.hooks.get(hook)
    assert (shown["waiting"], shown["dropped"], counted("dropped") - before) == ("5000", "2", 2)
    assert redis.xrange(queue, count=1)[0][1]["id"] == "2-0"


async def test_events_that_were_trimmed_before_they_were_read_are_counted(
    hub, redis, add_hook, note, deliver, receiver
):
    await note("grant.lent", **GRANT)  # before the first hook: of no concern
    await add_hook()
    before = counted("lost")
    for number in range(10):
        await note("grant.lent", **{**GRANT, "slot": f"s{number}"})
    redis.xtrim("hub:history", maxlen=3, approximate=False)
    await deliver()
    assert sorted(receiver.objects()) == ["s7", "s8", "s9"]
    assert counted("lost") - before == 7
    await note("grant.lent", **{**GRANT, "slot": "s10"})
    await deliver()
    assert counted("lost") - before == 7
    assert "s10" in receiver.objects()


@pytest.mark.parametrize("loses", ["group", "history"])
async def test_a_lost_group_or_history_is_begun_anew(loses, redis, add_hook, note, deliver, receiver):
    await add_hook()
    await note("grant.lent", **GRANT)
    await deliver()
    if loses == "group":
        redis.xgroup_destroy("hub:history", "hooks")
    else:
        redis.delete("hub:history")
    await note("grant.returned", **GRANT)
    await deliver()
    await deliver()
    assert receiver.objects() == {"s1": ["lease.granted", "lease.ended"]}


async def test_hooks_that_are_not_there_cost_nothing(hub, redis, add_hook, note, delivery):
    await note("grant.lent", **GRANT)
    assert redis.xinfo_groups("hub:history") == []
    hook = await add_hook()
    assert [group["name"] for group in redis.xinfo_groups("hub:history")] == ["hooks"]
    await hub.clock.tick()
    assert hub.clock.hooked.is_set()
    await hub.hooks.remove(hook)
    await hub.clock.tick()
    assert not hub.clock.hooked.is_set()
    assert redis.xinfo_groups("hub:history") == []
    assert redis.keys("hub:hook*") == []
    assert not any(field.startswith("hooks") for field in redis.hkeys("hub:store"))
    asked = redis.info("commandstats")
    running = asyncio.create_task(delivery.run())
    await asyncio.sleep(0)
    assert redis.info("commandstats").keys() == asked.keys()
    running.cancel()


async def test_a_turn_that_its_hub_does_not_end_is_over_in_time_and_its_late_result_harms_nothing(
    hub, add_hook, note, deliver, delivery, step, receiver
):
    hook = await add_hook()
    await note("grant.lent", **GRANT)
    await delivery.relay()
    _, _, _, _, _, (entry, _) = await delivery._take(turn="dead", turn_ms=20_000, most=16, rate=100)
    await deliver()
    assert receiver.heard == []  # another hub has the turn
    await step(21)
    receiver.answer = lambda _: 500
    await deliver()
    assert len(receiver.heard) == 1
    late = {"id": hook, "turn": "dead", "first_ms": 5000, "day_ms": 1, "gone": "it answered 410"}
    assert await delivery._settle(**late, rest=[entry, "it answered 410"]) == ["over"]
    assert (await hub.hooks.get(hook))["paused"] == ""
    assert await delivery._settle(**late, rest=[entry, "ok"]) == ["over"]
    assert (await hub.hooks.get(hook))["waiting"] == "0"


async def test_there_are_at_most_100_hooks_and_a_repeat_adds_none(hub, add_hook):
    secret = new_secret()
    first = await add_hook(secret=secret)
    assert await add_hook(secret=secret) == first
    for _ in range(99):
        await add_hook()
    with pytest.raises(QuotaExceeded):
        await add_hook()
    assert len(await hub.hooks.all()) == 100
