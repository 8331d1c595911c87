"""Mistakes can be planted: the text of each stands in its script exactly once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.__main__ import EVERY

TOP = Path(__file__).parents[2]


@pytest.mark.parametrize("mistake", EVERY, ids=lambda mistake: f"{mistake.script}: {mistake.why}")
def test_the_text_of_a_mistake_stands_in_its_script_once(mistake):
    assert (TOP / mistake.path).read_text().count(mistake.old) == 1
