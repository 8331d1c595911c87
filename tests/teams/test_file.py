"""HUB_TEAMS_FILE: what it may hold, a bad one, and what hubs do with its rows."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from hub.api.server import run
from hub.core import Hub
from hub.errors import StartRefused
from hub.teams.file import TeamsFile, read_teams
from hub.teams.models import TeamRow
from tests.world import PATIENCE_S, HubProcess, settings_for, wait_until

GOOD = '[[teams]]\nteam = "ml"\nlabel = "gpu:*"\nguarantee = 4\nceiling = 8\nweight = 2\n'
MORE = '[[teams]]\nteam = "web"\nlabel = "gpu:*"\n'
FAULTS = {
    "no team": ('[[teams]]\nlabel = "gpu:*"\n', ", entry 1: team is missing."),
    "no label": ('[[teams]]\nteam = "ml"\n', ", entry 1: label is missing."),
    "again": (GOOD + MORE + GOOD, ", entry 3: team and label are those of entry 1 again."),
    "unknown": (
        MORE + "limit = 3\n",
        ", entry 1: 'limit' is no field of a team; there are team, label, guarantee, ceiling, weight.",
    ),
    "negative": (MORE + "guarantee = -1\n", ", entry 1: guarantee must be a whole number from 0 to 999999999."),
    "ceiling": (
        GOOD + MORE + "guarantee = 3\nceiling = 2\n",
        ", entry 2: ceiling 2 is below the guarantee 3; it must be at least as high.",
    ),
    "weight": (MORE + "weight = nan\n", ", entry 1: weight must be a number from 0.01 to 1000."),
    "table": ("[teams]\n", ": teams is no list of tables; write [[teams]] above each team."),
    "too many": (
        "".join(f'[[teams]]\nteam = "t{n}"\nlabel = "gpu:*"\n' for n in range(257)),
        ", entry 257: there may be at most 256; use patterns with *.",
    ),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "teams.toml"
    found.write_text(GOOD)
    return found


@pytest.mark.parametrize(("text", "fault"), FAULTS.values(), ids=FAULTS)
def test_a_bad_file_refuses_the_start_with_its_entry_and_field(path: Path, text: str, fault: str) -> None:
    path.write_text(text)
    with pytest.raises(StartRefused) as refused:
        run(settings_for("redis://127.0.0.1:1", teams_file=path))
    assert str(refused.value) == f"HUB_TEAMS_FILE={path}{fault}"


def test_a_missing_file_refuses_the_start(tmp_path: Path) -> None:
    with pytest.raises(StartRefused, match="cannot be read: No such file"):
        read_teams(tmp_path / "none.toml")


async def test_rows_of_the_file_win_and_others_stay(path: Path, hub: Hub) -> None:
    await hub.teams.set(TeamRow("ml", "gpu:*", guarantee=1, by="ann"))
    await hub.teams.set(TeamRow("web", "gpu:*", by="ann"))
    hub.teams.follow(TeamsFile(path))
    await hub.teams.use_file()
    rows = {row.team: (row.guarantee, row.ceiling, row.weight, row.by) for row in await hub.teams.all()}
    assert rows == {"ml": (4, 8, 2, "file"), "web": (0, None, 1, "ann")}
    number = await hub.store.read("HGET", hub.store.keys.store, "teams_number")
    hub.teams.follow(TeamsFile(path))
    await hub.teams.use_file()
    assert await hub.store.read("HGET", hub.store.keys.store, "teams_number") == number, "nothing was set again"


def test_a_hub_rereads_its_teams_file_on_sighup_and_keeps_the_rows_if_the_new_is_bad(
    path: Path, start_hub: Callable[..., HubProcess]
) -> None:
    process = start_hub(HUB_TEAMS_FILE=str(path))

    def rows() -> dict[str, Any]:
        answer = httpx.get(f"{process.url}/teams", headers={"x-hub-secret": "admin-s3"}, timeout=PATIENCE_S)
        return {row["team"]: row["guarantee"] for row in answer.json()["teams"]}

    assert rows() == {"ml": 4}
    path.write_text("nonsense")
    process.signal(signal.SIGHUP)
    wait_until(lambda: "teams file rejected" in process.log(), why=process.log)
    assert rows() == {"ml": 4}
    path.write_text(GOOD.replace("4", "5") + MORE)
    process.signal(signal.SIGHUP)
    wait_until(lambda: rows() == {"ml": 5, "web": 0}, why=process.log)


async def test_a_full_table_lets_a_hub_start_whose_file_names_rows_that_exist(path: Path, hub: Hub, redis: Any) -> None:
    await hub.teams.set(TeamRow("ml", "gpu:*", guarantee=1, by="ann"))
    redis.hset("hub:teams", mapping={f"p{n}\tml": "{}" for n in range(255)})
    hub.teams.follow(TeamsFile(path))
    await hub.teams.use_file()
    assert "file" in [row.by for row in await hub.teams.all()]
    await hub.teams.use_file()


def test_a_file_without_room_in_the_table_refuses_the_start_and_changes_nothing_on_sighup(
    path: Path, start_hub: Callable[..., HubProcess], redis: Any
) -> None:
    process = start_hub(HUB_TEAMS_FILE=str(path))
    redis.hset("hub:teams", mapping={f"p{n}\tml": "{}" for n in range(255)})
    path.write_text(GOOD.replace("4", "5") + MORE)
    process.signal(signal.SIGHUP)
    wait_until(lambda: "teams file rejected" in process.log(), why=process.log)
    said = (
        f"HUB_TEAMS_FILE={path}: its 1 new rows are too many, as the store has 256 of at most 256; start without it "
        "and remove some (hub team rm), or use patterns with *."
    )
    assert process.log().count("teams file rejected") == 1
    assert said in process.log()
    assert "round of teams failed" not in process.log()
    assert '"guarantee":4' in redis.hget("hub:teams", "gpu:*\tml")
    other = HubProcess({"HUB_REDIS_URL": process.redis_url, "HUB_TEAMS_FILE": str(path)})
    try:
        assert other.process.wait(PATIENCE_S) != 0
        assert said in other.log()
        assert "Traceback" not in other.log()
    finally:
        other.kill()
