"""What Kubernetes hears of the pod of a node: whether something of it is lent, so that scaling down takes the idle."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from hub.client import pod_annotations
from hub.client.pod_annotations import DELETION_COST, SAFE_TO_EVICT, PodAnnotations
from tests.client.fake_cluster import Clock, Cluster, in_a_pod, running
from tests.client.fake_hub import FakeHub, agent_of, eventually
from tests.world import PATIENCE_S, HubProcess, clean_environment, wait_until

pytestmark = pytest.mark.usefixtures("quick")


@contextlib.asynccontextmanager
async def writing(own: PodAnnotations):
    task = asyncio.create_task(own.write_for_ever())
    yield
    task.cancel()
    await asyncio.wait([task])


def lend(hub: FakeHub, *slots: str) -> None:
    hub.lent = dict.fromkeys(slots, "1")
    hub.version += 1


async def test_a_pod_with_leases_has_a_higher_deletion_cost_and_may_not_be_evicted(hub, cluster: Cluster, clock):
    async with agent_of(hub, pod=True):
        await eventually(lambda: cluster.cost == 0)
        assert SAFE_TO_EVICT not in cluster.annotations
        for slots, expected in (("s1",), (11, "false")), (("s1", "s2"), (12, "false")), ((), (0, None)):
            await eventually(lambda: clock.asleep)
            lend(hub, *slots)
            clock.step(pod_annotations.EVERY_S)
            await eventually(lambda: (cluster.cost, cluster.annotations.get(SAFE_TO_EVICT)) == expected)  # noqa: B023
    (path,) = {path for _, path, _, _ in cluster.seen}
    assert path == "/api/v1/namespaces/fleet/pods/rack-7-0"
    assert {head["content-type"] for _, _, head, _ in cluster.seen} == {"application/merge-patch+json"}


async def test_a_pod_is_annotated_at_most_six_times_a_minute_and_always_with_the_last_change(cluster: Cluster, clock):
    own = PodAnnotations.own()
    assert own is not None
    async with writing(own):
        lent = itertools.cycle((0, 1, 2))
        for _ in range(180):
            own.lends(next(lent))
            await eventually(lambda: clock.asleep)
            clock.step(1.0)
        own.lends(4)
        for _ in range(11):
            await eventually(lambda: clock.asleep or cluster.cost == 14)
            clock.step(1.0)
        await eventually(lambda: cluster.cost == 14)
    at = [when for when, *_ in cluster.seen]
    assert len(at) == 19
    assert max(sum(start <= when < start + 60 for when in at) for start in at) == 6


async def test_an_unchanged_annotation_is_not_written_again(cluster: Cluster, clock):
    own = PodAnnotations.own()
    assert own is not None
    async with writing(own):
        own.lends(1)
        await eventually(lambda: cluster.cost == 11 and clock.asleep)
        clock.step(pod_annotations.EVERY_S)
        for _ in range(4):
            own.lends(1)
            for _ in range(10):  # turns of the loop, in which it looks whether there is something to write
                await asyncio.sleep(0)
        own.lends(2)
        await eventually(lambda: cluster.cost == 12)
    assert len(cluster.seen) == 2


async def test_the_token_of_the_pod_is_read_again_for_each_call(cluster: Cluster, clock):
    own = PodAnnotations.own()
    assert own is not None
    async with writing(own):
        own.lends(0)
        await eventually(lambda: cluster.cost == 0 and clock.asleep)
        (cluster.account / "token").write_text("token-2\n")
        own.lends(1)
        clock.step(pod_annotations.EVERY_S)
        await eventually(lambda: cluster.cost == 11)
    assert [head["authorization"] for _, _, head, _ in cluster.seen] == ["Bearer token-1", "Bearer token-2"]


async def test_a_missing_permission_to_annotate_is_logged_once_and_has_no_other_effect(
    hub, cluster: Cluster, clock, caplog
):
    cluster.answers = 403
    async with agent_of(hub, pod=True) as agent:
        for number in range(1, 5):
            await eventually(lambda: len(cluster.seen) == number and clock.asleep)  # noqa: B023
            lend(hub, f"s{number}")
            await eventually(lambda: list(agent.lent) == [f"s{number}"])  # noqa: B023
            clock.step(pod_annotations.LONGEST_PAUSE_S)
        told = [each for each in caplog.records if "pod-deletion-cost" in each.getMessage()]
        assert [each.levelno for each in told] == [logging.WARNING]
        assert "403" in told[0].getMessage()
        cluster.answers = 200
        await eventually(lambda: clock.asleep)
        clock.step(pod_annotations.LONGEST_PAUSE_S)
        await eventually(lambda: cluster.cost == 11)
    assert hub.nodes == {}


async def test_after_a_write_of_unknown_outcome_the_previous_value_is_written_again(cluster: Cluster, clock):
    own = PodAnnotations.own()
    assert own is not None
    async with writing(own):
        own.lends(0)
        await eventually(lambda: cluster.cost == 0 and clock.asleep)
        cluster.answers = 500
        own.lends(1)
        clock.step(pod_annotations.EVERY_S)
        await eventually(lambda: len(cluster.seen) == 2 and clock.asleep)
        cluster.annotations[DELETION_COST] = "11"  # it arrived, and the answer was lost
        cluster.answers = 200
        own.lends(0)
        clock.step(pod_annotations.LONGEST_PAUSE_S)
        await eventually(lambda: cluster.cost == 0)


@pytest.mark.parametrize("missing", ["no token", "no authority", "nobody listens"])
async def test_a_node_works_without_the_means_to_annotate_its_pod(missing, hub, cluster: Cluster, clock, monkeypatch):
    if missing == "nobody listens":
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "1")
    else:
        (cluster.account / {"no token": "token", "no authority": "ca.crt"}[missing]).unlink()
    async with agent_of(hub, pod=True) as agent:
        await eventually(lambda: clock.asleep)
        lend(hub, "s1")
        await eventually(lambda: list(agent.lent) == ["s1"])
    assert (hub.nodes, cluster.seen) == ({}, [])


async def test_a_cluster_that_does_not_answer_delays_no_heartbeat_and_no_leave(hub, cluster: Cluster, monkeypatch):
    monkeypatch.setattr(pod_annotations, "TIMEOUT_S", 3600.0)
    cluster.speaks.clear()
    async with agent_of(hub, pod=True):
        await eventually(lambda: cluster.seen)
        beats = len(hub.said("POST /node/heartbeat"))
        await eventually(lambda: len(hub.said("POST /node/heartbeat")) > beats + 3)
    assert (hub.nodes, cluster.annotations) == ({}, {})


async def test_a_pod_is_annotated_only_on_request(hub, cluster: Cluster, monkeypatch):
    async with agent_of(hub):
        await eventually(lambda: len(hub.said("POST /node/heartbeat")) > 1)
    for name in in_a_pod(1):
        with monkeypatch.context() as patch:
            patch.delenv(name)
            assert PodAnnotations.own() is None
    assert cluster.seen == []


COMMANDS = {
    "hub agent": "from hub.cli import main; sys.exit(main())",
    "python -m hub.client": "from hub.client.__main__ import main; sys.exit(main())",
}


@pytest.fixture
def cluster_of_processes(tmp_path: Path) -> Iterator[tuple[Cluster, dict[str, str]]]:
    with running(tmp_path, Clock()) as found:
        yield found


@pytest.mark.parametrize("command", COMMANDS)
def test_the_agent_command_annotates_its_pod(command, live_hub: HubProcess, cluster_of_processes):
    cluster, environment = cluster_of_processes
    words = ["agent"] * (command == "hub agent") + ["--node=n1", "--slots=gpu:a100=2", f"--url={live_hub.url}"]
    account = f"pod_annotations.ACCOUNT = pathlib.Path({str(cluster.account)!r})"
    begin = f"import pathlib, sys; from hub.client import pod_annotations; {account}"
    environment = {**clean_environment(), "HUB_NODE_SECRET": live_hub.node_secret, **environment}
    agent = subprocess.Popen(
        [sys.executable, "-c", f"{begin}; pod_annotations.EVERY_S = 0.1; {COMMANDS[command]}", *words],
        env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        wait_until(lambda: cluster.cost == 0)
        head = {"x-hub-secret": live_hub.runner_secret}
        asked = {"labelKey": "gpu:a100"}
        assert httpx.post(f"{live_hub.url}/session/borrow", json=asked, headers=head).status_code == 200
        wait_until(lambda: cluster.cost == 11)
        agent.terminate()
        _, said = agent.communicate(timeout=PATIENCE_S)
        assert (agent.returncode, b"pod-deletion-cost" in said) == (0, False), said
    finally:
        agent.kill()
        agent.wait()


@dataclass
class Member:
    """A pod of a ReplicaSet, as its controller sees it."""

    own: PodAnnotations
    created: int
    annotations: dict[str, str | None] = field(default_factory=dict)
    lent: int = 0

    @property
    def rank(self) -> tuple[int, int]:
        """Return the place in the order of deletion, for ready pods on different machines: a lower deletion cost first,
        then a pod that was ready later."""
        return int(self.annotations.get(DELETION_COST) or "0"), -self.created


async def test_kubernetes_deletes_idle_pods_before_busy_ones(clock: Clock, monkeypatch):
    chance, numbers, members, tasks = random.Random(7), itertools.count(), {}, {}

    def add() -> None:
        number = next(numbers)
        members[number] = Member(PodAnnotations(str(number)), number)
        members[number].own.lends(0)
        tasks[number] = asyncio.create_task(members[number].own.write_for_ever())

    async def patch(own: PodAnnotations, body: Any) -> None:
        members[int(own._url)].annotations |= body["metadata"]["annotations"]

    monkeypatch.setattr(PodAnnotations, "_patch", patch)
    for _ in range(20):
        add()
    chosen = []
    for _ in range(1000):
        busy = set(chance.sample(sorted(members), 10))
        for number, member in members.items():
            member.lent = chance.randint(1, 4) if number in busy else 0
            member.own.lends(member.lent)
        clock.step(11.0)
        for _ in range(5):  # each task gets its turn to write and to lie down
            await asyncio.sleep(0)
        victim = min(members, key=lambda number: members[number].rank)
        chosen.append(members.pop(victim).lent)
        tasks.pop(victim).cancel()
        add()
    for task in tasks.values():
        task.cancel()
    await asyncio.wait(tasks.values())
    assert chosen == [0] * 1000
