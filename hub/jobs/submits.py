"""What a submit is: the ids of its tasks, its fingerprint, and what of it goes to Redis together. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from hub.errors import Malformed
from hub.jobs.jobs import new_id
from hub.jobs.models import Options
from hub.jobs.names import dashed
from hub.settings.realms import stamped

BITE_CHARACTERS = 1_048_576  # and of payloads
BATCH = 64  # tasks submitted, or reported, per script: 2 to 3 ms


def batches(payloads: Sequence[str]) -> Iterator[tuple[int, int]]:
    """From where to where they go to Redis together: no script keeps it busy for long."""
    start = size = 0
    for end, payload in enumerate(payloads):
        if end > start and (end - start == BATCH or size + len(payload) > BITE_CHARACTERS):
            yield start, end
            start, size = end, 0
        size += len(payload)
    yield start, len(payloads)


def request_of(
    realm: str, key: str, user: str, room: str, full: str, payloads: Sequence[str], options: Options
) -> tuple[str, list[str], str]:
    """Return the key as it is kept, an id per payload, the same for the same key, and the request's fingerprint."""
    if not key:
        return "", [new_id(realm) for _ in payloads], ""
    kept = hashlib.sha256(f"{user}\0{key}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
    # What a request that is younger than its key may bring is added, so that those before keep their fingerprint.
    wanted = repr((room, full, options, list(payloads))) + (
        f" {silence}" if (silence := options.max_silence_ms) else ""
    )
    if options.unique_key:
        wanted += repr((options.unique_key, options.unique_ms))
    if options.after:
        wanted += after_of(options)
    fingerprint = hashlib.sha256(wanted.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    seeds = (f"{kept}\0{fingerprint}\0{number}" for number in range(len(payloads)))
    return kept, [derived(seed, realm) for seed in seeds], fingerprint


def derived(seed: str, realm: str) -> str:
    """Return an id that is the same for the same seed."""
    digest = hashlib.sha256(seed.encode()).hexdigest()
    return stamped(f"{digest[:12]}4{digest[13:16]}{'89ab'[int(digest[16], 16) % 4]}{digest[17:32]}", realm)


def unique_of(room: str, full: str, options: Options) -> str:
    """Return the unique key of a submit as it is kept, and for how many microseconds after it; empty for none."""
    if not options.unique_key:
        return ""
    named = f"{room}\0{full}\0{options.unique_key}".encode("utf-8", "surrogatepass")
    return f"{hashlib.sha256(named).hexdigest()[:32]}:{options.unique_ms * 1000}"


def after_of(options: Options) -> str:
    """Return what becomes of a task when one it waits for is not completed, and which it waits for; empty for none."""
    return ",".join(("run" if options.run_on_failure else "fail", *options.after)) if options.after else ""


def unknown_parents(after: Sequence[str], unknown: Sequence[str]) -> Malformed:
    """Return the refusal for tasks to wait for that are unknown, or that the caller may not see."""
    missing = frozenset(unknown)
    places = [(place, dashed(task)) for place, task in enumerate(after) if task in missing]
    return Malformed(
        errors=[
            {"type": "unknown_task", "loc": ["body", "after", place], "msg": f"There is no task {task}", "input": task}
            for place, task in places
        ]
    )
