"""The brake sees a silence of many as it begins: nodes beat at different times, and become stale one after another."""

from __future__ import annotations

from tests.world import add_node, age_node, sweepers


async def test_the_first_of_many_silent_nodes_is_not_taken_for_a_single_death(hub, redis):
    for number in range(20):
        await add_node(hub, f"n{number:02}")
    age_node(redis, "n00", 61)
    for number in range(1, 6):
        age_node(redis, f"n{number:02}", 45)  # silent as long as it takes to be suspect, not as long as to be stale
        redis.pexpire(f"node_alive:n{number:02}", 15_000)
    nodes, _ = sweepers(hub)
    done = await nodes.sweep()
    assert (done.stale, done.expired, done.brake) == (1, 0, "engaged")


async def test_a_single_death_among_many_that_are_merely_late_is_found_at_once(hub, redis):
    for number in range(20):
        await add_node(hub, f"n{number:02}")
    age_node(redis, "n00", 61)
    for number in range(1, 6):
        age_node(redis, f"n{number:02}", 25)
    nodes, _ = sweepers(hub)
    done = await nodes.sweep()
    assert (done.stale, done.expired, done.brake) == (1, 1, "off")


async def test_suspects_alone_engage_no_brake(hub, redis):
    for number in range(20):
        await add_node(hub, f"n{number:02}")
    for number in range(10):
        age_node(redis, f"n{number:02}", 45)
    nodes, _ = sweepers(hub)
    done = await nodes.sweep()
    assert (done.stale, done.expired, done.brake) == (0, 0, "off")
