"""The explanation of a worker: why it is alive or stale, what it holds, and what happens if it stays silent."""

from __future__ import annotations

from hub.core import Hub
from hub.history.explained import NextStep, Now, seconds
from hub.jobs.names import dashed, time_text
from hub.settings import Settings

SHOWN = 100  # jobs, tasks and providers that an explanation names


async def worker_now(hub: Hub, worker: str) -> Now | None:
    """Return the present state of a worker and its next steps; None for an unknown or removed worker."""
    keys, settings = hub.store.keys, hub.settings
    record, clock_ms, beat_ms, hung_up_ms, connections, brake, held, jobs, tasks, providers = await hub.store.read_all(
        [
            ("HGETALL", keys.worker(worker)),
            ("HGET", keys.store, "clock_ms"),
            ("ZSCORE", keys.worker_beats, worker),
            ("ZSCORE", keys.hung_up, worker),
            ("SCARD", keys.sockets(worker)),
            ("HGET", keys.worker_brake, "state"),
            ("SCARD", keys.worker_tasks(worker)),
            *(
                ("SRANDMEMBER", key(worker), SHOWN)
                for key in (keys.worker_jobs, keys.worker_tasks, keys.worker_providers)
            ),
        ]
    )
    if "beat" not in record:
        return None
    timeout_ms = settings.worker_timeout_s * 1000
    silent_ms = max(0.0, int(clock_ms or 0) - beat_ms) if beat_ms is not None else timeout_ms
    stale = silent_ms > timeout_ms
    facts = {
        "user": dashed(record["user"]),
        "incarnation": record.get("incarnation"),
        "registeredUtc": time_text(int(record["at"])),
        "lastBeatUtc": time_text(int(record["beat"])),
        "sinceBeatSeconds": silent_ms / 1000,
        "timeoutSeconds": settings.worker_timeout_s,
        "jobs": sorted(jobs),
        "tasks": sorted(map(dashed, tasks)),
        "providers": sorted(providers),
        "connections": connections,
        "brake": brake or "off",
    }
    because = f"Its last heartbeat was {seconds(silent_ms)} ago on the hub clock"
    if stale:
        because += f", more than HUB_WORKER_TIMEOUT_SECONDS ({seconds(timeout_ms)})"
    because += f"; it holds {held} {'task' if held == 1 else 'tasks'}."
    steps = [_silence(settings, held, max(0, int(timeout_ms - silent_ms)), brake)]
    if hung_up_ms is not None:
        because += " Its last connection was lost."
        rule = f"Unless it connects again: HUB_SIO_DISCONNECT_GRACE_SECONDS after it hung up. {_what_goes(held)}"
        steps.insert(0, NextStep("worker.gone", rule, max(0, int(hung_up_ms - int(clock_ms or 0)))))
    state = "stale" if stale else "alive" if hung_up_ms is None else "hung up"
    return Now(state, because, facts, tuple(steps))


def _silence(settings: Settings, held: int, left_ms: int, brake: str | None) -> NextStep:
    rule = (
        "Unless it beats: silent for HUB_WORKER_TIMEOUT_SECONDS it is removed by a sweep, which comes every "
        f"{settings.worker_sweep_interval_s:g} s. {_what_goes(held)}"
    )
    if brake == "engaged":
        rule += " The brake is engaged: so many are silent at once that none goes at first, then only some at a time."
    return NextStep("worker.gone", rule, left_ms)


def _what_goes(held: int) -> str:
    what = "Jobs that nobody else serves and nothing waits for are soft-deleted with it."
    if held:
        what = f"{'The task' if held == 1 else f'The {held} tasks'} it holds then fail or are tried again. {what}"
    return what
