"""A hub as the benchmarks of the jobs part need it: served as users serve it, with a file that holds one token."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from redis import Redis

from tests.bench import machine


@contextmanager
def jobs_hub(redis: Redis, token: str, *, until_it_waits: bool = False, **settings: str) -> Iterator[int]:
    """Run one process of `hub serve` that knows the token of one superuser; yield its port."""
    with tempfile.TemporaryDirectory(prefix="hub-bench-") as folder:
        table = Path(folder) / "tokens.toml"
        table.write_text(f'[[tokens]]\ntoken = "{token}"\nuser = "bench"\nsuperuser = true\n')
        with machine.hub_server(redis, until_it_waits=until_it_waits, HUB_TOKENS_FILE=str(table), **settings) as port:
            yield port
