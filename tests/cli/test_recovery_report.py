"""`hub recovery report`: for people as Markdown, for programs as JSON, with a hub and without."""

from __future__ import annotations

import json

import httpx
import pytest

from tests.cli.command import Command
from tests.recovery.databases import Database, sqlite
from tests.world import PATIENCE_S, wait_until

__all__ = ["sqlite"]


@pytest.fixture
def reported(start_hub, sqlite: Database, tmp_path, redis):
    """A command whose hub has made a pass: two records came back, and one failed for good."""
    sqlite.make_jobs()
    sqlite.add(1, 2, 3)
    sqlite.execute("UPDATE jobs SET attempts = 1 WHERE id = '3'")
    file = tmp_path / "recovery.toml"
    file.write_text(
        f'[[sources]]\nname = "orders"\nurl = "{sqlite.url}"\ntable = "jobs"\nerror_field = "error"\n'
        'attempts_field = "attempts"\nmax_attempts = 1\n'
    )
    hub = start_hub(HUB_RECOVERY_FILE=str(file))
    wait_until(lambda: "record sweep" in hub.log(), PATIENCE_S, hub.log)
    made = Command(hub, tmp_path)
    yield made
    made.close()


def test_a_report_is_markdown_with_what_happened_to_each_source(reported: Command):
    done = reported("recovery", "report", "--since", "7d")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("# Stuck records, 20")
    assert "Over 1 source 2 records were brought back, 1 failed for good, and passes met 0 errors." in lines
    (row,) = [line for line in lines if line.startswith("| orders ")]
    assert row == "| orders | 3 | 2 | 1 | 0 | 1 | 0 | ok | 3 |"
    assert "## Days on which something was stuck" in lines


def test_a_report_can_be_printed_as_json(reported: Command):
    found = json.loads(reported("recovery", "report", "--json").stdout)
    (orders,) = found["sources"]
    assert (found["days"], orders["source"], orders["reset"], orders["failed"]) == (7, "orders", 2, 1)
    (day,) = orders["days"]
    assert (day["mostStuck"], day["worstLevel"]) == (3, "ok")


def test_a_span_beyond_the_retention_is_refused_in_one_sentence(lone_command: Command):
    for wrong in ("91d", "1h", "week"):
        done = lone_command("recovery", "report", "--since", wrong)
        assert (done.returncode, done.stdout) == (2, "")
        assert "is not a time from 1d to 90d" in done.stderr


def test_without_a_hub_the_report_is_read_from_redis(lone_command: Command, redis_server, hub):
    done = lone_command("recovery", "report", HUB_REDIS_URL=redis_server.url)
    assert done.returncode == 0, done.stderr
    assert "No source is known: no hub has declared one within a week." in done.stdout


@pytest.mark.parametrize("days", ["0", "91", "x", "1.5"])
def test_an_invalid_number_of_days_is_refused(live_hub, days):
    answer = httpx.get(
        f"{live_hub.url}/console/report/stuck", params={"days": days}, headers={"x-hub-secret": live_hub.admin_secret}
    )
    assert (answer.status_code, answer.json()["member"]) == (400, "days")
