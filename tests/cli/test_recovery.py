"""`hub recovery`: stuck records are listed, reset and watched, and sources are checked, in SQLite databases."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sqlite3
import sys
import types
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hub.cli import main
from hub.errors import RecordsUnavailable
from hub.recovery.models import Reset, Source, Stuck

TABLE = """
CREATE TABLE orders (
    id INTEGER PRIMARY KEY, status VARCHAR(20) NOT NULL, updated_at TIMESTAMP, error TEXT, resets INTEGER
)
"""


class Shop:
    """A database of orders and the file that declares it, with `hub` in this process."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.file = folder / "recovery.toml"
        self.database = folder / "shop.db"
        self._capsys = capsys
        self.execute(TABLE)
        self.declare(self.orders())

    def orders(self, **fields: Any) -> dict[str, Any]:
        """The declaration of the orders."""
        url = f"sqlite+aiosqlite:///{self.database}"
        return {"name": "orders", "url": url, "table": "orders", "error_field": "error"} | fields

    def declare(self, *sources: dict[str, Any]) -> None:
        """Write the file."""
        texts = ("\n".join(f"{name} = {json.dumps(value)}" for name, value in each.items()) for each in sources)
        self.file.write_text("".join(f"[[sources]]\n{text}\n" for text in texts))

    def execute(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Rows of a statement."""
        with contextlib.closing(sqlite3.connect(self.database)) as connection, connection:
            return connection.execute(statement, values).fetchall()

    def add(self, id: int, minutes: float, status: str = "Processing", resets: int | None = None) -> None:
        """An order that was updated so many minutes ago."""
        statement = "INSERT INTO orders VALUES (?, ?, strftime('%Y-%m-%d %H:%M:%f', 'now', ?), NULL, ?)"
        self.execute(statement, id, status, f"-{minutes} minutes", resets)

    def statuses(self) -> dict[int, str]:
        """Status by id."""
        return dict(self.execute("SELECT id, status FROM orders ORDER BY id"))  # type: ignore[arg-type]

    def __call__(self, *words: str) -> tuple[int, str, str]:
        """The exit code of `hub recovery ...` with this file, and what it printed."""
        code = main(["recovery", *words, "--file", str(self.file)])
        out, err = self._capsys.readouterr()
        assert "Traceback" not in out + err
        return code, out, err

    def json(self, *words: str, code: int = 0) -> Any:
        """Return what it prints with `--json`."""
        done, out, err = self(*words, "--json")
        assert done == code, err
        return json.loads(out)


@pytest.fixture
def shop(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.setenv("DISABLE_DOTENV", "1")
    monkeypatch.setenv("HUB_DATA_DIR", str(tmp_path / "data"))
    return Shop(tmp_path, capsys)


@pytest.fixture
def orders(shop: Shop) -> Shop:
    """Two orders that are stuck, one that is worked on, one that waits."""
    shop.add(1, 90)
    shop.add(2, 59)
    shop.add(3, 300)
    shop.add(4, 500, "Pending")
    return shop


# -- ls --


def test_records_that_a_reset_would_touch_are_listed_longest_stuck_first(orders: Shop):
    code, out, err = orders("ls")
    assert (code, err) == (0, "")
    head, *rows = [line.split() for line in out.splitlines()]
    assert head == ["SOURCE", "ID", "STATUS", "UPDATED", "AGE", "RESETS"]
    assert [(row[0], row[1], row[2], *row[4:]) for row in rows] == [
        ("orders", "3", "Processing", "5", "h", "-"), ("orders", "1", "Processing", "1", "h", "30", "min", "-"),
    ]  # fmt: skip
    assert orders("reset", "--source", "orders")[0] == 0
    assert orders.statuses() == {1: "Pending", 2: "Processing", 3: "Pending", 4: "Pending"}
    assert orders("ls") == (0, "No stuck records.\n", "")


def test_stuck_records_can_be_listed_as_json(orders: Shop):
    orders.declare(orders.orders(attempts_field="resets", max_attempts=3))
    orders.execute("UPDATE orders SET resets = 2 WHERE id = 3")
    found = orders.json("ls")
    assert (found["total"], found["errors"]) == (2, [])
    first, second = found["records"]
    assert (first["source"], first["id"], first["status"], first["resets"]) == ("orders", "3", "Processing", 2)
    assert second["resets"] == 0
    assert 18_000 <= first["ageSeconds"] < 18_060
    age_s = (datetime.now(UTC) - datetime.fromisoformat(first["updatedAt"])).total_seconds()
    assert first["ageSeconds"] == pytest.approx(age_s, abs=60)


def test_the_list_of_stuck_records_can_be_limited_by_age_and_number(orders: Shop):
    orders.add(5, 200)
    assert [each["id"] for each in orders.json("ls", "--older-than", "2h")["records"]] == ["3", "5"]
    code, out, err = orders("ls", "--limit", "2")
    assert (code, len(out.splitlines()), err) == (0, 3, "hub: 2 of 3 stuck records shown; --limit shows more.\n")
    code, out, err = orders("ls", "--limit", "1", "--older-than", "90m")
    assert (len(out.splitlines()), err) == (2, "hub: the first 1 of the stuck records shown; --limit shows more.\n")
    assert orders.json("ls", "--limit", "2")["total"] == 3


def test_an_age_below_the_threshold_is_refused(orders: Shop):
    code, out, err = orders("ls", "--older-than", "59m")
    assert (code, out) == (2, "")
    assert err == "hub: --older-than is below the threshold of orders, 1 h: younger records are not stuck.\n"
    assert orders("ls", "--older-than", "60m")[0] == 0


def test_stuck_records_are_listed_for_all_sources_or_for_the_named_ones(orders: Shop):
    orders.declare(orders.orders(), orders.orders(name="late", threshold_minutes=200))
    shown = [(each["source"], each["id"]) for each in orders.json("ls")["records"]]
    assert sorted(shown[:2]) == [
        ("late", "3"),
        ("orders", "3"),
    ]  # as old as each other, but for when they were looked at
    assert shown[2:] == [("orders", "1")]
    assert [each["source"] for each in orders.json("ls", "--source", "late")["records"]] == ["late"]
    assert orders.json("ls", "--source", "late", "--source", "orders")["total"] == 3


def test_an_unreadable_source_does_not_hide_the_others(orders: Shop):
    away = orders.orders(name="away", url=f"sqlite+aiosqlite:///{orders.folder}/no/such.db")
    other = orders.orders(name="other", table="no_such")
    orders.declare(away, orders.orders(), other, orders.orders(name="wrong", threshold_minutes=0))
    code, out, err = orders("ls")
    assert (code, [line.split()[:2] for line in out.splitlines()[1:]]) == (1, [["orders", "3"], ["orders", "1"]])
    wrong, first, second = err.splitlines()
    assert wrong.startswith(f"hub: {orders.file}, source wrong, threshold_minutes: it must be a number")
    assert first.startswith(f"hub: {orders.file}, source away, url: ")
    assert second.startswith(f"hub: {orders.file}, source other, table: ")
    found = orders.json("ls", code=1)
    assert [(each["source"], each["state"]) for each in found["errors"]] == [
        ("wrong", "refused"), ("away", "unreachable"), ("other", "refused"),
    ]  # fmt: skip
    assert orders("ls", "--source", "orders")[::2] == (0, "")
    assert orders("ls", "--source", "wrong")[:2] == (1, "")


# -- reset --


def test_all_stuck_records_are_reset_in_batches(orders: Shop):
    orders.declare(orders.orders(batch_size=2, attempts_field="resets", max_attempts=2))
    for id in range(10, 15):
        orders.add(id, 70, resets=id - 10)
    code, out, err = orders("reset", "--source", "orders")
    assert (code, err) == (0, "")
    first, *failed = out.splitlines()
    assert first == "orders: 4 records reset, 3 failed for good."
    assert sorted(failed) == [f"  failed: {id}" for id in (12, 13, 14)]
    assert orders.execute("SELECT id, status, resets FROM orders WHERE id < 2 OR id > 4 ORDER BY id") == [
        (1, "Pending", 1), (10, "Pending", 1), (11, "Pending", 2),
        (12, "Failed", 2), (13, "Failed", 3), (14, "Failed", 4),
    ]  # fmt: skip
    assert orders.execute("SELECT error FROM orders WHERE id = 1") == [("Stuck: not updated within the threshold",)]
    assert orders("reset", "--source", "orders") == (0, "orders: nothing was reset.\n", "")


def test_a_reset_by_ids_resets_these_alone_and_names_those_that_are_not_stuck(orders: Shop):
    code, out, err = orders("reset", "--source", "orders", "--id", "1", "--id", "2", "--id", "01", "--id", "77")
    assert (code, out) == (1, "orders: 1 record reset, 0 failed for good.\n")
    assert err == "hub: not stuck in orders, and left alone: '2', '77'.\n"
    assert orders.statuses() == {1: "Pending", 2: "Processing", 3: "Processing", 4: "Pending"}
    found = orders.json("reset", "--source", "orders", "--id", "3")
    assert found == {
        "source": "orders", "dryRun": False, "reset": ["3"], "failed": [], "notStuck": [], "stillStuck": 0,
        "errors": [],
    }  # fmt: skip


def test_an_impossible_id_resets_nothing(orders: Shop):
    code, out, err = orders("reset", "--source", "orders", "--id", "1", "--id", "one")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "--id 'one'" in err
    assert orders.statuses()[1] == "Processing"


def test_a_dry_run_shows_what_would_be_reset_and_changes_nothing(orders: Shop):
    before = orders.execute("SELECT * FROM orders")
    code, out, err = orders("reset", "--source", "orders", "--dry-run")
    assert (code, err, out.splitlines()[-1]) == (0, "", "Nothing was changed.")
    assert [line.split()[1] for line in out.splitlines()] == ["ID", "3", "1", "was"]
    found = orders.json("reset", "--source", "orders", "--dry-run", "--id", "1", "--id", "2", code=1)
    assert (found["total"], [each["id"] for each in found["records"]], found["notStuck"]) == (1, ["1"], ["2"])
    assert (found["source"], found["dryRun"]) == ("orders", True)
    assert orders.execute("SELECT * FROM orders") == before


def test_an_unknown_source_is_refused_with_the_names_of_the_known_ones(orders: Shop):
    orders.declare(orders.orders(), orders.orders(name="late"))
    for words in (("reset",), ("ls",), ("watch",)):
        refused = (2, "", "hub: No source is called 'oders'; there are orders, late.\n")
        assert orders(*words, "--source", "oders") == refused
    orders.file.write_text("")
    assert orders("reset", "--source", "a") == (2, "", "hub: No source is called 'a'; there is none at all.\n")


def test_nothing_is_reset_of_a_source_that_cannot_be_reached(orders: Shop):
    orders.declare(orders.orders(url=f"sqlite+aiosqlite:///{orders.folder}/no/such.db"))
    for words in ((), ("--dry-run",), ("--id", "1")):
        code, out, err = orders("reset", "--source", "orders", *words)
        assert (code, out, err.count("\n")) == (1, "", 1)
        assert f"{orders.file}, source orders, url: " in err
    orders.file.write_text("[")
    assert orders("reset", "--source", "orders")[:2] == (1, "")


# -- what no database of ours does on demand --


class Scripted:
    """Records that do what a test says: batches that are reset, then perhaps an error."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.batches: list[Reset | Exception | Callable[[], None]] = []
        self.stuck = [Stuck("7", "Processing", 7200.0, datetime(2026, 1, 2, tzinfo=UTC), 1)]
        self.looked = 0
        self.closed = 0

    async def check(self) -> None:
        await self.count()

    async def count(self) -> int:
        return len(self.stuck)

    async def look(
        self, limit: int, older_than_s: float | None = None, ids: Sequence[str] | None = None
    ) -> list[Stuck]:
        self.looked += 1
        if self.batches and isinstance(self.batches[0], Exception):
            raise self.batches[0]
        return self.stuck[:limit]

    async def reset(self, ids: Sequence[str] | None = None) -> Reset:
        await asyncio.sleep(0)
        batch = self.batches.pop(0) if self.batches else Reset()
        if isinstance(batch, Exception):
            raise batch
        if isinstance(batch, Reset):
            return batch
        batch()
        return Reset(("9",))

    async def close(self) -> None:
        self.closed += 1


@pytest.fixture
def scripted(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> dict[str, Scripted]:
    """Scripted records by the name of their source: those of `orders` are there, others come when they are opened."""
    made: dict[str, Scripted] = {}

    def open_records(source: Source, store: object) -> Scripted:
        return made.setdefault(source.name, Scripted(source))

    module = types.ModuleType("hub.recovery.kinds")
    module.open_records = open_records  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "hub.recovery.kinds", module)
    from hub.recovery.file import read_sources

    open_records(read_sources(shop.file)[0], None)
    return made


def test_after_a_lost_database_the_records_already_reset_are_reported(shop: Shop, scripted):
    scripted["orders"].batches = [Reset(("1", "2")), Reset(("3",), ("4",)), RecordsUnavailable("source orders: gone.")]
    code, out, err = shop("reset", "--source", "orders")
    assert (code, err) == (1, "hub: source orders: gone.\nhub: 1 record is stuck in orders still.\n")
    assert out == "orders: 3 records reset, 1 failed for good.\n  failed: 4\n"
    assert scripted["orders"].closed == 1


@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_a_reset_that_cannot_begin_prints_its_json_document_too(shop: Shop, scripted, more):
    gone = RecordsUnavailable("source orders: gone.")
    scripted["orders"].batches = [gone]
    code, out, _ = shop("reset", "--source", "orders", "--json", *more)
    document = json.loads(out)
    assert (code, document["errors"]) == (
        1,
        [{"source": "orders", "state": "unreachable", "why": "source orders: gone."}],
    )
    assert document.get("stillStuck", document.get("total")) == (None if more else 1)


def test_after_ctrl_c_the_records_already_reset_are_reported(shop: Shop, scripted):
    scripted["orders"].batches = [Reset(("1",)), lambda: signal.raise_signal(signal.SIGINT)]
    scripted["orders"].batches += [Reset(("2",))] * 1000
    code, out, err = shop("reset", "--source", "orders")
    assert (code, err) == (1, "hub: interrupted; what was reset stays reset.\n")
    assert out.endswith("records reset, 0 failed for good.\n")
    assert scripted["orders"].batches


def test_a_locked_record_is_reported_as_still_stuck(shop: Shop, scripted):
    held = "hub: 1 record is stuck in orders still: a record is locked, or became due only now.\n"
    assert shop("reset", "--source", "orders") == (1, "orders: nothing was reset.\n", held)
    assert shop("reset", "--source", "orders", "--id", "7") == (1, "orders: nothing was reset.\n", held)


def test_an_unforeseen_error_of_a_driver_fails_only_its_own_source(shop: Shop, scripted):
    shop.declare(shop.orders(), shop.orders(name="late"))
    scripted["orders"].batches = [RuntimeError("no way to postgresql://u:s3cr3t@h/d")]
    code, out, err = shop("ls")
    assert (code, len(out.splitlines())) == (1, 2)
    assert err == "hub: source orders: RuntimeError: no way to postgresql://u:***@h/d.\n"


# -- watch --


def test_recovery_watch_shows_every_source_repeatedly_until_ctrl_c(shop: Shop, scripted, monkeypatch):
    shop.declare(shop.orders(), shop.orders(name="late", threshold_minutes=90), shop.orders(name="bad", batch_size=0))
    scripted["orders"].batches = [RecordsUnavailable("source orders: gone.")]

    async def count(self: Scripted) -> int:
        if self.looked == 3:
            scripted["orders"].batches = []
            signal.raise_signal(signal.SIGINT)
        return 1

    monkeypatch.setattr(Scripted, "count", count)
    code, out, err = shop("watch", "--interval", "0.1")
    assert (code, err) == (0, "")
    first, second, *_ = out.split("\n\n")
    _, head, late, *troubles = [line.split() for line in first.splitlines()]
    assert head == ["SOURCE", "STUCK", "OLDEST", "THRESHOLD", "TROUBLE"]
    assert late == ["late", "1", "2", "h", "1", "h", "30", "min", "-"]
    assert [(row[0], row[1], *row[4:7]) for row in troubles] == [
        ("bad", "-", f"{shop.file},", "source", "bad,"), ("orders", "-", "source", "orders:", "gone."),
    ]  # fmt: skip
    assert "late" in second
    assert [each.closed for each in scripted.values()] == [1, 1]


def test_recovery_watch_with_json_prints_one_line_per_look(shop: Shop, scripted, monkeypatch):
    async def count(self: Scripted) -> int:
        if self.looked == 2:
            signal.raise_signal(signal.SIGTERM)
        return 5

    monkeypatch.setattr(Scripted, "count", count)
    code, out, _ = shop("watch", "--interval", "0.1", "--json")
    looks = [json.loads(line) for line in out.splitlines()]
    assert (code, len(looks)) == (0, 2)
    assert looks[1]["sources"] == [
        {"source": "orders", "stuck": 5, "oldestSeconds": 7200, "thresholdSeconds": 3600, "trouble": None}
    ]
    assert looks[0]["at"] < looks[1]["at"]


# -- check --


def test_check_confirms_that_sources_are_as_declared(shop: Shop):
    shop.declare(shop.orders(), shop.orders(name="late"))
    assert shop("check") == (0, "orders ok\nlate ok\n", "")
    sound = {"state": "ok", "why": None}
    assert shop.json("check") == {"ok": True, "sources": [{"source": "orders"} | sound, {"source": "late"} | sound]}
    shop.file.write_text("")
    assert shop("check") == (0, "No sources are declared.\n", "")


WRONG = {
    "unknown table": ({"table": "odrers"}, "table"),
    "missing column": ({"updated_at_field": "changed"}, "updated_at_field"),
    "another missing column": ({"error_field": "why"}, "error_field"),
    "wrong type": ({"updated_at_field": "error", "error_field": "status", "status_field": "updated_at"}, ""),
    "wrong type of attempts": ({"attempts_field": "updated_at", "updated_at_field": "id", "max_attempts": 1}, ""),
    "status longer than the column": ({"stuck": "Processing" * 3}, "stuck"),
    "threshold 0": ({"threshold_minutes": 0}, "threshold_minutes"),
    "driver that waits": ({"url": "sqlite:////tmp/x.db"}, "url"),
    "no URL": ({"url": "nowhere"}, "url"),
    "misspelt field": ({"tabel": "orders"}, "tabel"),
}


@pytest.mark.parametrize(("fields", "field"), WRONG.values(), ids=WRONG)
def test_check_refuses_a_source_that_is_not_as_declared_in_one_sentence(shop: Shop, fields, field):
    shop.declare(shop.orders(), shop.orders(name="bad", **fields))
    code, out, err = shop("check")
    assert (code, out, err.count("\n")) == (2, "orders ok\n", 1)
    assert err.startswith(f"hub: {shop.file}, source bad, {field}")
    document = shop.json("check", code=2)
    assert (document["ok"], [each["state"] for each in document["sources"]]) == (False, ["ok", "refused"])


def test_an_unreachable_database_is_reported_without_its_password(shop: Shop):
    shop.declare(shop.orders(), shop.orders(name="away", url="postgresql+asyncpg://hub:s3cr3t@127.0.0.1:9/shop"))
    code, out, err = shop("check")
    assert (code, out, err.count("\n")) == (1, "orders ok\n", 1)
    assert err.startswith(f"hub: {shop.file}, source away, url: ")
    assert "s3cr3t" not in err
    shop.declare(shop.orders(name="away", url="redis://127.0.0.1:9", kind="redis", index="i", key="k:{id}"))
    shop.file.write_text(shop.file.read_text().replace("table", "#").replace("error_field", "#"))
    code, out, err = shop("check")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "source away" in err


def test_only_sources_in_the_store_of_the_hub_need_that_store(shop: Shop):
    shop.declare(shop.orders(), {"name": "tasks", "kind": "tasks"})
    code, out, err = shop("check")
    assert (code, out, err.count("\n")) == (1, "orders ok\n", 1)
    assert "source tasks" in err
    assert "no embedded one runs" in err


def test_sources_in_the_store_of_the_hub_are_checked(shop: Shop, redis_server, redis, monkeypatch):
    monkeypatch.setenv("HUB_REDIS_URL", redis_server.url)
    redis.hset("mail:7", mapping={"status": "Processing", "updated_at": "1700000000"})
    redis.zadd("mails", {"7": 1_700_000_000})
    mails = {"name": "mails", "kind": "redis", "index": "mails", "key": "mail:{id}"}
    shop.declare({"name": "tasks", "kind": "tasks"}, mails, mails | {"name": "own", "url": redis_server.url})
    assert shop("check") == (0, "tasks ok\nmails ok\nown ok\n", "")
    assert {(each["source"], each["id"]) for each in shop.json("ls")["records"]} == {("mails", "7"), ("own", "7")}
    assert shop("reset", "--source", "mails") == (0, "mails: 1 record reset, 0 failed for good.\n", "")
    assert redis.hget("mail:7", "status") in (b"Pending", "Pending")


@pytest.mark.parametrize(("text", "why"), [("1h", "is a number from"), ("0", "must be above 0")])
def test_check_reports_an_unusable_setting(shop: Shop, monkeypatch, text, why):
    monkeypatch.setenv("ZOMBIE_STUCK_THRESHOLD_MINUTES", text)
    code, out, err = shop("check")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert why in err


def test_without_a_file_on_the_command_line_the_sources_of_the_settings_are_used(shop: Shop, monkeypatch, capsys):
    monkeypatch.setenv("HUB_RECOVERY_FILE", str(shop.file))
    assert main(["recovery", "check"]) == 0
    assert capsys.readouterr() == ("orders ok\n", "")
    shop.declare(shop.orders(table="x"))
    assert main(["recovery", "check"]) == 2
    assert capsys.readouterr().err.startswith(f"hub: HUB_RECOVERY_FILE={shop.file}, source orders, table: ")
    monkeypatch.delenv("HUB_RECOVERY_FILE")
    for words in (["recovery", "ls"], ["recovery", "watch"], ["recovery", "check"]):
        assert main(words) == 2
        assert capsys.readouterr() == (
            "", "hub: No source is declared: name a TOML file of sources with --file or HUB_RECOVERY_FILE.\n"
        )  # fmt: skip


LINES = {
    "recovery": "Missing command",
    "recovery ls --older-than soon": "'soon' is not a time from 0.1s to 366d, such as 90s, 10m or 2h;",
    "recovery ls --older-than 0": "'0' is not a time",
    "recovery ls --limit 0": "--limit",
    "recovery ls orders": "unexpected extra argument",
    "recovery reset": "Missing option '--source'",
    "recovery reset --source": "requires an argument",
    "recovery watch --interval 0": "'0' is not a time from 0.1s to 1d",
    "recovery watch --interval 5min": "'5min' is not a time",
    "recovery check --source orders": "No such option: --source",
    "recovery list": "No such command 'list'",
}


@pytest.mark.parametrize(("line", "sentence"), LINES.items(), ids=LINES)
def test_a_wrong_command_line_is_refused_in_one_sentence(line, sentence, monkeypatch, capsys):
    monkeypatch.setenv("DISABLE_DOTENV", "1")
    code = main(line.split())
    out, err = capsys.readouterr()
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err
