"""The brake sees a silence of many as it begins: nodes beat at different times, and become stale one after another."""

from __future__ import annotations

from tests.world import add_node, age_node, sweepers


async def test_the_first_of_many_silent_nodes_is_not_removed_as_a_single_death(hub, redis):
    for number in range(20):
        await add_node(hub, f"n{number:02}")
    age_node(redis, "n00", 61)
    for number in range(1, 6):
        age_node(redis, f"n{number:02}", 45)  # silent as long as it takes to be suspect, not as long as to be stale
        redis.pexpire(f"node_alive:n{number:02}", 15_000)
    nodes, _ = sweepers(hub)
    done = await nodes.sweep()
    assert (done.stale, done.expired, done.brake) == (1, 0, "engaged")


async def test_a_single_dead_node_among_many_late_ones_is_removed_at_once(hub, redis):
    for number in range(20):
        await add_node(hub, f"n{number:02}")
    age_node(redis, "n00", 61)
    for number in range(1, 6):
        age_node(redis, f"n{number:02}", 25)
    nodes, _ = sweepers(hub)
    done = await nodes.sweep()
    assert (done.stale, done.expired, done.brake) == (1, 1, "off")


async def test_suspect_nodes_alone_do_not_engage_the_brake(hub, redis):
    for number in range(20):
        await add_node(hub, f"n{number:02}")
    for number in range(10):
        age_node(redis, f"n{number:02}", 45)
    nodes, _ = sweepers(hub)
    done = await nodes.sweep()
    assert (done.stale, done.expired, done.brake) == (0, 0, "off")
