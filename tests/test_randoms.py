"""Random names: none is given twice."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from hub.randoms import random_hex


@pytest.mark.parametrize("count", [1, 12, 16, 4095, 4096])
def test_a_random_name_has_the_requested_number_of_digits(count: int) -> None:
    assert [len(random_hex(count)) for _ in range(3)] == [2 * count] * 3


def test_threads_never_get_the_same_random_name() -> None:
    with ThreadPoolExecutor(8) as threads:
        found = [
            name for names in threads.map(lambda _: [random_hex(12) for _ in range(5_000)], range(8)) for name in names
        ]
    assert len(set(found)) == len(found) == 40_000


def test_a_forked_child_gets_other_random_names_than_its_parent() -> None:
    random_hex(1)  # so that some are left
    reading, writing = os.pipe()
    if (pid := os.fork()) == 0:
        os.write(writing, random_hex(16).encode())
        os._exit(0)
    os.close(writing)
    mine = random_hex(16)
    with os.fdopen(reading) as said:
        assert said.read() != mine
    os.waitpid(pid, 0)
