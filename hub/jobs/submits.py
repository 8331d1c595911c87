"""The parts of a submit: the ids of its tasks, its fingerprint, and the batches in which it goes to Redis. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from hub.errors import Malformed
from hub.jobs.jobs import new_id
from hub.jobs.models import Options
from hub.jobs.names import dashed
from hub.settings.realms import stamped

BITE_CHARACTERS = 1_048_576  # most characters of payloads per script
BATCH = 64  # most tasks submitted, or reported, per script: 2 to 3 ms


def batches(payloads: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the (start, end) of the batches in which payloads go to Redis, so that no script takes long."""
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
    """Return a hash of user and key, an id for each payload, and the fingerprint of the request.

    With a key the ids are the same for each repeat of the request; without a key they are random and the other two ''.
    """
    if not key:
        return "", [new_id(realm) for _ in payloads], ""
    kept = hashlib.sha256(f"{user}\0{key}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
    # Later options are added only where they are used, so that earlier requests keep their fingerprints.
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
    """Return a UUID, as 32 hex digits, that is the same for the same seed and realm."""
    digest = hashlib.sha256(seed.encode()).hexdigest()
    return stamped(f"{digest[:12]}4{digest[13:16]}{'89ab'[int(digest[16], 16) % 4]}{digest[17:32]}", realm)


def unique_of(room: str, full: str, options: Options) -> str:
    """Return `hash of the unique key:microseconds for which it holds after the submit`; '' for no unique key."""
    if not options.unique_key:
        return ""
    named = f"{room}\0{full}\0{options.unique_key}".encode("utf-8", "surrogatepass")
    return f"{hashlib.sha256(named).hexdigest()[:32]}:{options.unique_ms * 1000}"


def after_of(options: Options) -> str:
    """Return `run` or `fail` (what a task does when a task it waits for is not completed) and the ids of the tasks it
    waits for, joined by commas; '' when it waits for none.
    """
    return ",".join(("run" if options.run_on_failure else "fail", *options.after)) if options.after else ""


def unknown_parents(after: Sequence[str], unknown: Sequence[str]) -> Malformed:
    """Return the refusal of a submit whose `after` names tasks that are unknown, or that the caller may not see."""
    missing = frozenset(unknown)
    places = [(place, dashed(task)) for place, task in enumerate(after) if task in missing]
    return Malformed(
        errors=[
            {"type": "unknown_task", "loc": ["body", "after", place], "msg": f"There is no task {task}", "input": task}
            for place, task in places
        ]
    )
