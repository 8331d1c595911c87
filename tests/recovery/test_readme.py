"""The examples of the page on recovery, run."""

from __future__ import annotations

import re
import tomllib
from functools import partial
from pathlib import Path

import pytest

import hub.recovery.loop
from hub.recovery.file import read_sources
from hub.recovery.models import SqlSource
from tests.recovery.databases import Database

TOP = Path(__file__).parent.parent.parent
PAGE = (TOP / "hub" / "manual" / "recovery.md").read_text()


def example(language: str, word: str) -> str:
    """Return the example in this language that has this word in it."""
    (found,) = [code for code in re.findall(rf"(?s)```{language}\n(.*?)```", PAGE) if word in code]
    return found


def test_the_example_of_a_source_in_the_readme_is_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ORDERS_DATABASE_URL", "postgresql+asyncpg://shop@db/shop")
    (tmp_path / "recovery.toml").write_text(example("toml", "[[sources]]"))
    (source,) = read_sources(tmp_path / "recovery.toml")
    assert isinstance(source, SqlSource)
    assert (source.name, source.table, source.max_attempts) == ("orders", "shop.orders", 3)


@pytest.mark.parametrize("page", [TOP / "README.md", TOP / "hub/manual/recovery.md", TOP / "deploy/recovery.toml"])
def test_the_example_of_a_time_zone_is_valid(page: Path):
    line = re.findall(r'time_zone = "[^"]+"', page.read_text())[0]
    told = {"name": "orders", "url": "postgresql://db/shop", "table": "orders", **tomllib.loads(line)}
    assert SqlSource.model_validate(told).time_zone == "America/New_York"


def test_the_example_of_a_loop_handles_the_pending_records(sqlite: Database, tmp_path: Path, monkeypatch, capsys):
    sqlite.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, amount INTEGER, status TEXT, updated_at TIMESTAMP)")
    sqlite.execute("INSERT INTO orders VALUES (7, 12, 'Pending', CURRENT_TIMESTAMP), (8, 30, 'Other', NULL)")
    (tmp_path / "recovery.toml").write_text(f'[[sources]]\nname = "orders"\nurl = "{sqlite.url}"\ntable = "orders"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HUB_REDIS_URL", "")
    endless = hub.recovery.loop.process
    monkeypatch.setattr(hub.recovery.loop, "process", partial(endless, until_empty=True))
    exec(compile(example("python", "hub.recovery.loop"), "recovery.md", "exec"), {"__name__": "readme"})
    assert capsys.readouterr().out == "7 12\n"
    assert sqlite.execute("SELECT id, status FROM orders") == [(7, "Completed"), (8, "Other")]
