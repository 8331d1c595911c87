"""Hubs that were given different settings: one's hold for all, it is said, and they change when all want others."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable

import httpx
import pytest
from redis import Redis

from tests.world import PATIENCE_S, HubProcess, wait_until

Start = Callable[..., HubProcess]
WARNING = re.compile(r"WARNING settings differ between hubs .*")


def holds(redis: Redis) -> float:
    return int(redis.hget("hub:store", "timeout_ms") or 0) / 1000


def used_by(hub: HubProcess) -> float:
    """Return the timeout by which a hub tells nodes when to beat."""
    headers = {"x-hub-secret": hub.node_secret}
    answers: list[httpx.Response] = []

    def answered() -> bool:  # while a store is opened anew it may refuse
        answers.append(
            httpx.post(f"{hub.url}/node/register", json={"nodeId": "n1"}, headers=headers, timeout=PATIENCE_S)
        )
        return answers[-1].status_code == 200

    wait_until(answered, why=hub.log)
    answer = answers[-1]
    return float(round(answer.json()["nextBeatMs"] * 6 / 1000 / 20) * 20)


@pytest.fixture
def first(start_hub: Start) -> HubProcess:
    return start_hub(HUB_NODE_TIMEOUT="100", REDIS_ASYNC_TIMEOUT_MS="5000")


@pytest.mark.slow
async def test_a_hub_with_another_timeout_uses_the_one_in_force_and_logs_a_warning(
    first: HubProcess, start_hub: Start, redis: Redis
) -> None:
    second = start_hub(HUB_NODE_TIMEOUT="400")
    assert (holds(redis), used_by(first), used_by(second)) == (100, 100, 100)
    wait_until(lambda: WARNING.search(second.log()) is not None, why=second.log)
    (said,) = WARNING.findall(second.log())
    assert 'given="HUB_NODE_TIMEOUT=400"' in said
    assert 'holds="HUB_NODE_TIMEOUT=100"' in said
    assert not WARNING.search(first.log())
    first.kill()
    wait_until(lambda: holds(redis) == 400, why=second.log)  # the last one wants it, so that it holds
    assert used_by(second) == pytest.approx(400, abs=40)


@pytest.mark.slow
async def test_the_timeout_changes_when_the_last_hub_with_the_old_one_is_replaced(
    first: HubProcess, start_hub: Start, redis: Redis
) -> None:
    second = start_hub(HUB_NODE_TIMEOUT="100")
    second.kill()
    changed = start_hub(HUB_NODE_TIMEOUT="400")
    assert holds(redis) == 100
    first.kill()
    start_hub(HUB_NODE_TIMEOUT="400")
    wait_until(lambda: holds(redis) == 400, why=changed.log)


@pytest.mark.slow
async def test_an_emptied_store_gets_the_timeout_that_was_in_force(
    first: HubProcess, start_hub: Start, redis: Redis
) -> None:
    second = start_hub(HUB_NODE_TIMEOUT="400")
    wait_until(lambda: WARNING.search(second.log()) is not None, why=second.log)
    redis.flushall()
    redis.function_flush()
    wait_until(lambda: holds(redis) > 0)
    wait_until(lambda: "store replaced" in first.log() and "store replaced" in second.log(), why=second.log)
    wait_until(lambda: holds(redis) == 100)
    assert (used_by(first), used_by(second)) == (100, 100)


@pytest.mark.slow
async def test_a_hub_that_was_stopped_while_the_timeout_changed_uses_the_new_one_and_logs_a_warning(
    first: HubProcess, start_hub: Start, redis: Redis
) -> None:
    second = start_hub(HUB_NODE_TIMEOUT="400")
    first.signal(signal.SIGSTOP)
    try:
        wait_until(lambda: holds(redis) == 400, why=second.log)
    finally:
        first.signal(signal.SIGCONT)
    wait_until(lambda: WARNING.search(first.log()) is not None, why=first.log)
    assert holds(redis) == 400
    assert used_by(first) == pytest.approx(400, abs=40)


@pytest.mark.slow
async def test_a_new_hub_does_not_change_the_matching_flags_and_caps_of_running_hubs(
    first: HubProcess, start_hub: Start, redis: Redis
) -> None:
    second = start_hub(HUB_NODE_TIMEOUT="100", HUB_BORROW_WILDCARDS="true", HUB_BORROW_CONCURRENCY_CAPS="gpu:a100=2")
    wait_until(lambda: WARNING.search(second.log()) is not None, why=second.log)
    (said,) = WARNING.findall(second.log())
    assert 'given="HUB_BORROW_WILDCARDS=true HUB_BORROW_CONCURRENCY_CAPS=gpu:a100=2"' in said
    assert 'holds="HUB_BORROW_WILDCARDS=false HUB_BORROW_CONCURRENCY_CAPS="' in said
    assert redis.hget("hub:store", "options") in (b"110", "110")
    assert redis.hgetall("hub:caps") == {}
    first.kill()
    wait_until(lambda: redis.hget("hub:store", "options") in (b"111", "111"), why=second.log)
    assert len(redis.hgetall("hub:caps")) == 1


@pytest.mark.slow
def test_a_setting_made_by_an_operator_holds_for_all_present_and_later_hubs(
    first: HubProcess, start_hub: Start, redis: Redis
) -> None:
    second = start_hub(HUB_NODE_TIMEOUT="100")
    answer = httpx.put(
        f"{first.url}/admin/settings/HUB_NODE_TIMEOUT", json={"value": "300"},
        headers={"x-hub-secret": first.admin_secret}, timeout=PATIENCE_S,
    )  # fmt: skip
    assert (answer.status_code, holds(redis)) == (200, 300)
    wait_until(lambda: used_by(second) > 200, why=second.log)
    for hub in (first, second):
        hub.kill()
    third = start_hub(HUB_NODE_TIMEOUT="100")
    assert holds(redis) == 300
    assert used_by(third) == pytest.approx(300, abs=40)
    assert not WARNING.search(third.log())  # it was given what the hubs agree on
