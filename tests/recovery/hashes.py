"""Builders: hashes that got stuck, a source of them, and scripts that find a time of the test's choosing."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from hub.recovery.hashes import HashRecords
from hub.recovery.models import RedisSource

FIELDS = {"name": "orders", "index": "orders", "key": "order:{id}", "threshold_minutes": 1}
COUNTED = {**FIELDS, "attempts_field": "tries", "max_attempts": 2, "error_field": "why", "error_text": "stuck"}


def records_of(hub, **changes):
    """Return the source in the hub's own Redis, with a threshold of one minute."""
    return HashRecords(RedisSource(**{**FIELDS, **changes}), hub.store)


def now_s(redis):
    """Return the time of Redis in s."""
    seconds, microseconds = redis.time()
    return seconds + microseconds / 1_000_000


def put(redis, id, age_s=3600.0, *, updated_at=None, score=None, index="orders", **fields):
    """A record that was updated so long ago; in a sorted index when it has a score."""
    written = f"{now_s(redis) - age_s:.6f}" if updated_at is None else updated_at
    redis.hset(f"order:{id}", mapping={"status": "Processing", "updated_at": written, **fields})
    if score is None:
        redis.sadd(index, id)
    else:
        redis.zadd(index, {id: score})


def at_exactly(records, microseconds):
    """Return the same records, whose scripts read this time from Redis, in microseconds."""
    time = f"{{'{microseconds // 10**6}', '{microseconds % 10**6}'}}"
    clock = (
        "local real = redis local redis = setmetatable({call = function(command, ...) "
        f"if command == 'TIME' then return {time} end return real.call(command, ...) end}}, {{__index = real}})\n"
    )
    for name in ("_find", "_reset"):
        script = getattr(records, name)
        text = clock + script.text
        sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
        setattr(records, name, replace(script, text=text, sha=sha))
    return records
