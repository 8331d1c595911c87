"""The outages, and how each is measured."""

from __future__ import annotations

import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from tests.drill.fleet import OWN_ALIVE_S, Node
from tests.drill.report import Found, Outcome
from tests.drill.stage import Sizes, Stage, TooLong

LONG = 10  # timeouts
COMES_BACK_WITHIN_S = 60.0


@dataclass(frozen=True)
class Scenario:
    """An outage: `act` lets it happen and returns when it is over.

    `empties`: the store knows no lease until its node has reported it; a lease returned before that is not lost.
    """

    title: str
    act: Callable[[Stage], Awaitable[None]]
    writing_share: float = 0.0
    empties: bool = False


async def hubs_down(stage: Stage) -> None:
    stage.kill_hubs()
    await stage.timeouts(LONG)
    await stage.start_hubs()


async def redis_down(stage: Stage) -> None:
    stage.redis.kill()
    await stage.timeouts(LONG)
    await stage.start_redis()


async def both_down(stage: Stage) -> None:
    stage.kill_hubs()
    stage.redis.kill()
    await stage.timeouts(LONG)
    await stage.start_redis()
    await stage.start_hubs()


async def redis_restarted(stage: Stage) -> None:
    stage.redis.kill()
    await stage.start_redis()


async def redis_emptied(stage: Stage) -> None:
    stage.redis.kill()
    await stage.start_redis(empty=True)


async def third_silent(stage: Stage) -> None:
    agents = stage.fleet.agents[::3]
    stage.fleet.mute(agents, True)
    await stage.timeouts(1.5)
    stage.fleet.mute(agents, False)


async def all_silent(stage: Stage) -> None:
    stage.fleet.mute(stage.fleet.agents, True)
    await stage.timeouts(LONG)
    stage.fleet.mute(stage.fleet.agents, False)


async def hub_stopped(stage: Stage) -> None:
    hub = stage.pause_hub()
    await stage.timeouts(3)
    hub.signal(signal.SIGCONT)


async def clocks_off(stage: Stage) -> None:
    await stage.timeouts(1)  # and for as long as it takes until the dead among them are found


SCENARIOS = {
    "hubs-down": Scenario("Hubs killed, started again ten timeouts later", hubs_down),
    "redis-down": Scenario("Redis killed, started from its file ten timeouts later", redis_down),
    "both-down": Scenario("Hubs and Redis killed, started again ten timeouts later", both_down),
    "redis-restart": Scenario("Redis killed and started from its file at once", redis_restarted),
    "redis-empty": Scenario("Redis killed and started with nothing", redis_emptied, empties=True),
    "third-silent": Scenario("A third of the nodes silent for 1.5 timeouts", third_silent),
    "all-silent": Scenario("All nodes silent for ten timeouts", all_silent),
    "hub-stopped": Scenario("The hub that sweeps stopped (SIGSTOP) for three timeouts", hub_stopped),
    "clocks-off": Scenario("A fifth writes Redis itself, clocks off by up to 1 h", clocks_off, writing_share=0.2),
}


async def measure(name: str, sizes: Sizes) -> Outcome:
    """Set everything up, let the outage happen, and say what it cost."""
    scenario = SCENARIOS[name]
    async with Stage(sizes, scenario.writing_share) as stage:
        await stage.timeouts(1)
        began = time.monotonic()
        await scenario.act(stage)
        over = time.monotonic()
        heard_s = await _until(stage, lambda: stage.fleet.heard_since(over), "every node is heard again")
        await _until(stage, lambda: not stage.borrowers.overdue(), "every lease is renewed that is due")
        dead = stage.kill(_victims(stage))
        found = await _find(stage, dead)
        await stage.timeouts(0.5)
        outcome = await _outcome(scenario, stage, over - began, heard_s, found)
        if outcome.broken:
            logs = f"logs of the hubs: {' '.join(map(str, stage.logs))}"
            return replace(outcome, details=(*outcome.details, logs))
        stage.forget_logs()
        return outcome


async def _until(stage: Stage, condition: Callable[[], bool], what: str) -> float:
    try:
        return await stage.until(condition, what, COMES_BACK_WITHIN_S)
    except TooLong as late:
        stage.faults.append(str(late))
        return float("inf")


def _victims(stage: Stage) -> list[Node]:
    """Return a few nodes of each kind, from all over the fleet."""
    kinds = ([node for node in stage.fleet.nodes if _kind(node) == kind] for kind in ("", BEHIND, AHEAD))
    return [node for kind in kinds for node in kind[:: max(1, len(kind) // stage.sizes.killed)][: stage.sizes.killed]]


BEHIND, AHEAD = "writing, clock behind", "writing, clock ahead"


def _kind(node: Node) -> str:
    return "" if node.skew_s is None else AHEAD if node.ahead else BEHIND


async def _find(stage: Stage, dead: list[Node]) -> tuple[Found, ...]:
    """How soon they are gone. A node whose clock was ahead stays until that time has come (contract, S8)."""
    sizes = stage.sizes
    within = {"": sizes.timeout_s + sizes.sweep_s, BEHIND: max(sizes.timeout_s, OWN_ALIVE_S) + sizes.sweep_s}
    wanted = [node for node in dead if not node.ahead]
    longest = max(within_s for kind, within_s in within.items() if any(_kind(node) == kind for node in wanted))
    gone = await stage.find(wanted, longest + 2 * sizes.timeout_s)
    return tuple(
        Found(*max(gone.get(node.id, (float("inf"), 0.0)) for node in wanted if _kind(node) == kind), within_s, kind)
        for kind, within_s in within.items()
        if any(_kind(node) == kind for node in wanted)
    )


async def _outcome(
    scenario: Scenario, stage: Stage, away_s: float, heard_s: float, found: tuple[Found, ...]
) -> Outcome:
    gone = len(await stage.gone([node for node in stage.fleet.nodes if node.dead]))
    borrowers = stage.borrowers
    lost = [*borrowers.lost, *await borrowers.missing(stage.client), *([] if scenario.empties else borrowers.late)]
    twice = borrowers.lent_twice()
    idle = await stage.idle()
    forgotten = sum(node.forgotten for node in stage.fleet.healthy)
    return Outcome(
        title=scenario.title,
        away_s=away_s,
        expired=stage.expired() - gone,
        lost=len(lost),
        twice=len(twice),
        idle=idle.total(),
        heard_s=heard_s,
        found=found,
        faults=tuple(stage.faults),
        details=(
            f"{borrowers.waiting:,} borrowers wait; wanted slots that nobody has: {dict(idle)}",
            f"{borrowers.granted:,} leases; {forgotten:,} times a node had to register again; "
            f"{len(borrowers.late)} returns found nothing to end; borrowers were refused {dict(borrowers.refusals)}",
            *lost[:5],
            *twice[:5],
        ),
    )
