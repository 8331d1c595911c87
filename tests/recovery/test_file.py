"""Declarations of sources: what they may say, and the one sentence about each that is wrong."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hub.errors import SourceRefused, StartRefused
from hub.recovery.file import declared, read_source, read_sources, survey
from hub.recovery.models import RedisSource, Source, SqlSource, TaskSource
from hub.settings import Settings, load_settings

URL = "postgresql+asyncpg://hub:s3cr3t@db/orders"
GOOD = f"""
[[sources]]
name = "orders"
url = "{URL}"
table = "shop.orders"

[[sources]]
kind = "redis"
name = "mails.2"
index = "mails"
key = "mail:{{id}}"
threshold_minutes = 0.5
stuck = 1
becomes = 0
failed = -1

[[sources]]
kind = "tasks"
name = "tasks"
max_attempts = 3
batch_size = 10
"""
ORDERS = f'[[sources]]\nname = "orders"\nurl = "{URL}"\ntable = "orders"\n'
MAILS = '[[sources]]\nname = "mails"\nkind = "redis"\nindex = "mails"\nkey = "mail:{id}"\n'
TASKS = '[[sources]]\nname = "tasks"\nkind = "tasks"\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "recovery.toml"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Write a module of sources and get the setting that names it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    made: list[str] = []

    def write(text: str) -> str:
        name = f"sources_of_test_{len(made)}"
        made.append(name)
        (tmp_path / f"{name}.py").write_text(
            "from hub.recovery.models import RedisSource, SqlSource, TaskSource\n" + textwrap.dedent(text)
        )
        monkeypatch.delitem(sys.modules, name, raising=False)
        return name

    yield write
    for name in made:
        sys.modules.pop(name, None)


def test_the_sources_of_a_file_are_declared_as_written(path):
    path.write_text(GOOD)
    assert [each.model_dump() for each in read_sources(path, 15)] == [
        each.model_dump()
        for each in (
            SqlSource(name="orders", url=URL, table="shop.orders", threshold_minutes=15),
            RedisSource(
                name="mails.2", index="mails", key="mail:{id}", threshold_minutes=0.5, stuck=1, becomes=0, failed=-1
            ),
            TaskSource(name="tasks", max_attempts=3, batch_size=10, threshold_minutes=15),
        )
    ]


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ('name = "a"', "name", "a"),
        (f'name = "{"0" * 64}"', "name", "0" * 64),
        ("threshold_minutes = 90", "threshold_minutes", 90),
        ("threshold_minutes = 0.001", "threshold_minutes", 0.001),
        ("threshold_minutes = 527040", "threshold_minutes", 527_040),
        ("batch_size = 1", "batch_size", 1),
        ("batch_size = 10_000", "batch_size", 10_000),
        ('status_field = "state"', "status_field", "state"),
        ('updated_at_field = "changed"', "updated_at_field", "changed"),
        ('stuck = "working on it"', "stuck", "working on it"),
        ('error_field = "why"', "error_field", "why"),
        ('error_text = "zu lange nichts gehört"', "error_text", "zu lange nichts gehört"),
        ('attempts_field = "resets"\nmax_attempts = 1', "max_attempts", 1),
        ('id_field = "number"', "id_field", "number"),
        ('time_zone = "Europe/Berlin"', "time_zone", "Europe/Berlin"),
        ('becomes = "Failed"', "becomes", "Failed"),
        ('url_env = "ORDERS_URL"', "url", "sqlite+aiosqlite:///from-environment"),
    ],
)
def test_a_field_of_a_source_is_read_as_written(path, monkeypatch, line, field, value):
    monkeypatch.setenv("ORDERS_URL", " sqlite+aiosqlite:///from-environment ")
    named = line.split(" = ")[0].replace("url_env", "url")
    path.write_text("\n".join(old for old in ORDERS.splitlines() if not old.startswith(f"{named} ")) + f"\n{line}\n")
    (source,) = read_sources(path)
    assert getattr(source, field) == value


def test_sources_of_hashes_need_no_time_zone_for_times_in_utc(path):
    path.write_text(MAILS + MAILS.replace('"mails"\nk', '"utc"\nk') + 'time_zone = "UTC"\n')
    assert [each.time_zone for each in read_sources(path)] == [None, "UTC"]


@pytest.mark.parametrize("text", ["", "# none yet\n", "sources = []\n", "\ufeff# BOM\n"], ids=range(4))
def test_a_file_without_sources_is_valid(path, text):
    path.write_text(text)
    assert read_sources(path) == []


def test_a_source_without_a_threshold_uses_the_one_of_the_settings(path, monkeypatch):
    path.write_text(ORDERS + MAILS + "threshold_minutes = 5\n")
    assert [each.threshold_minutes for each in read_sources(str(path))] == [60, 5]
    monkeypatch.setenv("ZOMBIE_STUCK_THRESHOLD_MINUTES", "7.5")
    assert [each.threshold_minutes for each in read_sources(path)] == [7.5, 5]
    assert [each.threshold_minutes for each in read_sources(path, 9)] == [9, 5]


def test_the_url_of_a_source_may_come_from_a_variable_of_the_env_file(path, tmp_path, monkeypatch):
    path.write_text(MAILS + 'url_env = "MAILS_URL"\n')
    (tmp_path / ".env").write_text("MAILS_URL=redis://elsewhere:6379\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DISABLE_DOTENV", raising=False)
    assert read_sources(path)[0].url == "redis://elsewhere:6379"


STATUS = "it must be a text of 1 to 1000 characters or a whole number"
TEXT = "it must be a text of 1 to 1000 characters"
NAMES = "it must be 1 to 64 lower-case letters, digits, dots, dashes or underscores, a letter or digit first"
MINUTES = "it must be a number of minutes above 0 and at most 527040"
WHOLE = "it must be a whole number from 1 to 1000000"
TOP = '[[sources]]\nurl = "x"\ntable = "t"\n'

SQL, REDIS, TASK = (f"a source of kind {kind} has no such field;" for kind in ("sql", "redis", "tasks"))
VARIABLE = "it must be the name of a variable of the environment"
BAD = {
    'x = "s3cr3t': " is no TOML (at ",
    "[[sources]]\nname =\n": " is no TOML (at line 2, column 7).",
    "x = " + "[" * 5000: " is no TOML",
    "[[source]]\n": ": 'source' means nothing at the top; write one [[sources]] per source.",
    "threshold_minutes = 5\n": ": 'threshold_minutes' means nothing at the top;",
    '[sources]\nname = "a"\n': ": sources is no list of tables; write [[sources]] above each source.",
    "sources = 7\n": ": sources is no list of tables;",
    'sources = ["s3cr3t"]\n': ": sources is no list of tables;",
    # the name
    TOP: ", source 1, name: it is missing.",
    ORDERS + TOP: ", source 2, name: it is missing.",
    TOP + "name = 7\n": f", source 1, name: {NAMES}, and is 7.",
    TOP + 'name = ""\n': f", source 1, name: {NAMES}, and is ''.",
    TOP + 'name = "Orders"\n': f", source Orders, name: {NAMES}, and is 'Orders'.",
    TOP + 'name = ".x"\n': f", source .x, name: {NAMES}, and is '.x'.",
    TOP + f'name = "{"x" * 65}"\n': f", source 1, name: {NAMES}.",
    TOP + 'name = "a\\nb"\n': f", source 1, name: {NAMES}, and is 'a\\nb'.",
    TOP + f'name = "{URL}"\n': f", source 1, name: {NAMES}.",
    ORDERS + MAILS + ORDERS: ", source orders, name: there is another source of this name.",
    ORDERS + TASKS.replace('"tasks"\nk', '"orders"\nk'): ", source orders, name: there is another source of this name.",
    # the kind
    ORDERS + 'kind = "mysql"\n': ", source orders, kind: it must be one of sql, redis, tasks, and is 'mysql'.",
    ORDERS + "kind = 7\n": ", source orders, kind: it must be one of sql, redis, tasks, and is 7.",
    ORDERS + 'kind = ["sql"]\n': ", source orders, kind: it must be one of sql, redis, tasks.",
    # fields that are missing, or that there are not
    '[[sources]]\nname = "orders"\ntable = "t"\n': ", source orders, url: it is missing.",
    f'[[sources]]\nname = "orders"\nurl = "{URL}"\n': ", source orders, table: it is missing.",
    MAILS.replace("index", "#index"): ", source mails, index: it is missing.",
    MAILS.replace("key", "#key"): ", source mails, key: it is missing.",
    ORDERS + 'statusfield = "s"\n': f"statusfield: {SQL} did you mean status_field?",
    ORDERS + 'treshold = "s3cr3t"\n': f"treshold: {SQL} did you mean threshold_minutes?",
    ORDERS + 'password = "s3cr3t"\n': f"password: {SQL} there are name, threshold_minutes,",
    ORDERS + 'key = "a:{id}"\n': f", key: {SQL} there are ",
    MAILS + 'table = "t"\n': f", table: {REDIS} there are ",
    TASKS + 'stuck = "claimed"\n': f", source tasks, stuck: {TASK} there are name, thr",
    TASKS + f'url = "{URL}"\n': f", source tasks, url: {TASK} there are ",
    # the url
    ORDERS.replace(f'"{URL}"', '""'): f", source orders, url: {TEXT}.",
    ORDERS.replace(f'"{URL}"', "7"): f", source orders, url: {TEXT}.",
    ORDERS.replace(f'"{URL}"', f'["{URL}"]'): f", source orders, url: {TEXT}.",
    ORDERS.replace(URL, URL + "x" * 1000): f", source orders, url: {TEXT}.",
    ORDERS + 'url_env = "ORDERS_URL"\n': ", source orders, url_env: url is there as well; give one of them.",
    ORDERS.replace("url", "url_env"): f", source orders, url_env: {VARIABLE}.",
    '[[sources]]\nname = "a"\nurl_env = "NO_SUCH"\n': ", source a, url_env: the environment has no 'NO_SUCH', or",
    '[[sources]]\nname = "a"\nurl_env = "BLANK"\n': ", source a, url_env: the environment has no 'BLANK', or nothing",
    '[[sources]]\nname = "a"\nurl_env = 7\n': f", url_env: {VARIABLE}, and is 7.",
    '[[sources]]\nname = "a"\nurl_env = ""\n': f", url_env: {VARIABLE}, and is ''",
    TASKS + 'url_env = "HOME"\n': f", source tasks, url_env: {TASK} there are ",
    # numbers
    **{
        ORDERS + f"threshold_minutes = {text}\n": f", source orders, threshold_minutes: {MINUTES}, and is {shown}."
        for text, shown in {
            "0": "0", "0.0": "0.0", "-1": "-1", "inf": "inf", "-inf": "-inf", "nan": "nan", "527041": "527041",
            '"60"': "'60'", "true": "true",
        }.items()
    },
    ORDERS + "threshold_minutes = 12:00:00\n": f", source orders, threshold_minutes: {MINUTES}.",
    **{
        ORDERS + f"batch_size = {text}\n": (
            f", source orders, batch_size: it must be a whole number from 1 to 10000, and is {shown}."
        )
        for text, shown in {"0": "0", "-1": "-1", "10001": "10001", "5.0": "5.0", '"5"': "'5'", "true": "true"}.items()
    },
    # statuses
    ORDERS + 'stuck = ""\n': f", source orders, stuck: {STATUS}, and is ''.",
    ORDERS + "stuck = 1.5\n": f", source orders, stuck: {STATUS}, and is 1.5.",
    ORDERS + "becomes = true\n": f", source orders, becomes: {STATUS}, and is true.",
    ORDERS + 'failed = ["a"]\n': f", source orders, failed: {STATUS}.",
    ORDERS + f"stuck = {2**63}\n": f", source orders, stuck: {STATUS}, and is {2**63}.",
    ORDERS + "stuck = 1\n": ", source orders, becomes: it must be a whole number as stuck is, and is 'Pending'.",
    ORDERS + "stuck = 1\nbecomes = 0\n": ", failed: it must be a whole number as stuck is, and is 'Failed'.",
    ORDERS + "becomes = 0\n": ", source orders, becomes: it must be a text as stuck is, and is 0.",
    ORDERS + 'stuck = "Pending"\n': ", source orders, becomes: it must differ from stuck, which is 'Pending' too.",
    ORDERS + "stuck = 2\nbecomes = 1\nfailed = 2\n": ", failed: it must differ from stuck, which is 2 too.",
    # attempts
    ORDERS + 'attempts_field = "n"\n': ", source orders, max_attempts: it is missing, and attempts_field needs it.",
    MAILS + "max_attempts = 3\n": ", source mails, attempts_field: it is missing, and max_attempts needs it.",
    TASKS + "max_attempts = 0\n": f", source tasks, max_attempts: {WHOLE}, and is 0.",
    ORDERS + 'attempts_field = "n"\nmax_attempts = 1.5\n': f", source orders, max_attempts: {WHOLE}, and is 1.5.",
    ORDERS + "max_attempts = 1_000_001\n": f", source orders, max_attempts: {WHOLE}, and is 1000001.",
    # other texts
    ORDERS + 'status_field = ""\n': f", source orders, status_field: {TEXT}, and is ''.",
    ORDERS + "error_field = 7\n": f", source orders, error_field: {TEXT}, and is 7.",
    ORDERS + f'error_text = "{"x" * 1001}"\n': f", source orders, error_text: {TEXT}.",
    ORDERS + 'error_field = "status"\n': ", source orders, error_field: status_field is 'status' too.",
    ORDERS + 'id_field = "a"\nupdated_at_field = "a"\n': ", source orders, updated_at_field: id_field is 'a' too.",
    **{
        MAILS + f"time_zone = {text}\n": f', source mails, time_zone: it must be "UTC", or left out, and is {shown}.'
        for text, shown in {'"Europe/Berlin"': "'Europe/Berlin'", '"utc"': "'utc'", '""': "''", "0": "0"}.items()
    },
    MAILS.replace("{id}", "id"): ", key: it must have {id} in it, where the id of a record stands, and is 'mail:id'.",
}  # fmt: skip


@pytest.mark.parametrize(("text", "sentence"), BAD.items(), ids=range(len(BAD)))
def test_an_unusable_sources_file_is_refused_in_one_sentence_without_secrets(path, text, sentence, monkeypatch):
    monkeypatch.setenv("BLANK", " ")
    path.write_text(text)
    with pytest.raises(SourceRefused) as refused:
        read_sources(path)
    said = str(refused.value)
    assert said.startswith(str(path))
    assert sentence in said
    assert said.endswith((".", "?"))
    assert "\n" not in said
    assert "s3cr3t" not in said + repr(refused.value.facts)
    assert "pydantic" not in said


@pytest.mark.parametrize("make", [Path.mkdir, None, lambda path: path.write_bytes(b'x = "\xff"')], ids=range(3))
def test_an_unreadable_sources_file_is_refused_in_one_sentence(path, make):
    if make is not None:
        make(path)
    with pytest.raises(SourceRefused, match=f"^{path} (cannot be read: |is no UTF-8 text)"):
        read_sources(path)


WRONG: dict[str, tuple[Callable[[], Source], str]] = {
    "field": (lambda: SqlSource(name="a", url=URL, table=7), f"source a, table: {TEXT}, and is 7."),
    "missing": (lambda: SqlSource(name="a", table="t"), "source a, url: it is missing."),
    "unnamed": (lambda: TaskSource(), "a source, name: it is missing."),
    "unknown": (
        lambda: RedisSource(name="a", indx=URL, key="{id}"),
        "source a, indx: a source of kind redis has no such field; did you mean index?",
    ),
    "validated": (lambda: TaskSource.model_validate(7), "a source, kind: "),
    "statuses": (
        lambda: SqlSource(name="a", url=URL, table="t", becomes="Processing"),
        "source a, becomes: it must differ from stuck, which is 'Processing' too.",
    ),
    "kind": (lambda: TaskSource(name="a", kind="sql"), "source a, kind: "),
}


@pytest.mark.parametrize(("make", "sentence"), WRONG.values(), ids=WRONG)
def test_a_source_made_in_python_is_refused_with_the_same_sentences(make: Callable[[], Any], sentence):
    with pytest.raises(SourceRefused) as refused:
        make()
    assert str(refused.value).startswith(sentence)
    assert "s3cr3t" not in str(refused.value)


def test_the_url_of_a_source_is_not_shown_in_its_representation():
    for source in (SqlSource(name="a", url=URL, table="t"), RedisSource(name="a", url=URL, index="i", key="{id}")):
        assert "s3cr3t" not in repr(source) + str(source)


# -- Python, and both --


def test_sources_of_a_module_follow_those_of_the_file_and_use_the_threshold_of_the_settings(path, module):
    path.write_text(ORDERS + "threshold_minutes = 5\n")
    named = module("mine = (TaskSource(name='tasks'), SqlSource(name='late', url='x', table='t', threshold_minutes=1))")
    settings = load_settings(
        {
            "HUB_RECOVERY_FILE": str(path),
            "HUB_RECOVERY_SOURCES": f"{named}:mine",
            "ZOMBIE_STUCK_THRESHOLD_MINUTES": "7.5",
        }
    )
    assert [(each.name, each.threshold_minutes) for each in declared(settings)] == [
        ("orders", 5), ("tasks", 7.5), ("late", 1),
    ]  # fmt: skip
    said = [str(each.refused("url", "it is wrong")) for each in declared(settings)[:2]]
    assert said == [
        f"HUB_RECOVERY_FILE={path}, source orders, url: it is wrong.",
        f"HUB_RECOVERY_SOURCES={named}:mine, source tasks, url: it is wrong.",
    ]


def test_without_settings_no_source_is_declared():
    assert declared(Settings()) == []


MODULES = {
    "sources = 7": "`sources` is no list of sources.",
    "sources = 'ab'": "`sources` is no list of sources.",
    "sources = [7]": "`sources` is no list of sources.",
    "source = []": "has no `sources`.",
    "1 / 0": "cannot be imported: ZeroDivisionError: division by zero.",
    "raise SystemExit(3)": "cannot be imported: SystemExit: 3.",
    f"raise RuntimeError('{URL}')": "cannot be imported: RuntimeError: postgresql+asyncpg://hub:***@db/orders.",
    f"sources = [SqlSource(name='a', url='{URL}', tabel='t')]": (
        ", source a, tabel: a source of kind sql has no such field; did you mean table?"
    ),
    f"sources = [SqlSource(name='a', url='{URL}', table='t', threshold_minutes=0)]": (
        f", source a, threshold_minutes: {MINUTES}, and is 0."
    ),
    "sources = [TaskSource(name='a'), TaskSource(name='a')]": ", source a, name: there is another source of this name.",
}  # fmt: skip


@pytest.mark.parametrize(("text", "sentence"), MODULES.items(), ids=range(len(MODULES)))
def test_an_unusable_module_of_sources_is_refused_in_one_sentence_without_secrets(module, text, sentence):
    named = module(text)
    with pytest.raises(StartRefused) as refused:
        declared(Settings(recovery_sources=named))
    said = str(refused.value)
    assert said.startswith(f"HUB_RECOVERY_SOURCES={named}")
    assert said.endswith(sentence)
    assert "s3cr3t" not in said


def test_a_missing_module_of_sources_is_refused():
    with pytest.raises(StartRefused, match="HUB_RECOVERY_SOURCES=no_such: no_such cannot be imported: ModuleNotFound"):
        declared(Settings(recovery_sources="no_such"))


def test_a_survey_lists_usable_sources_and_the_faults_of_the_others(path, module):
    path.write_text(ORDERS + TASKS + "max_attempts = 0\n" + MAILS + TOP + "[[sources]]\nname = 'x'\nkind = 'y'\n")
    named = module("sources = [TaskSource(name='own'), TaskSource(name='orders')]")
    sources, refused = survey(Settings(recovery_file=path, recovery_sources=named))
    assert [each.name for each in sources] == ["orders", "mails", "own"]
    assert [each.facts["source"] for each in refused] == ["tasks", None, "x", "orders"]
    with pytest.raises(StartRefused) as first:
        declared(Settings(recovery_file=path, recovery_sources=named))
    assert str(first.value) == str(refused[0])
    path.write_text("[")
    sources, refused = survey(Settings(recovery_file=path, recovery_sources=named))
    assert ([each.name for each in sources], len(refused)) == (["own", "orders"], 1)
    sources, refused = survey(Settings(recovery_sources=named), file=path)
    assert ([each.name for each in sources], [str(each).startswith(str(path)) for each in refused]) == ([], [True])


def test_one_source_can_be_read_beside_broken_ones(path):
    path.write_text(ORDERS + TASKS + "max_attempts = 0\n" + MAILS)
    assert read_source(path, "mails").name == "mails"
    with pytest.raises(SourceRefused, match=r"source tasks, max_attempts: "):
        read_source(str(path), "tasks")
    with pytest.raises(SourceRefused, match=r"no source is called 'mail'; there are orders, mails\.$"):
        read_source(path, "mail")
    path.write_text("[")
    with pytest.raises(SourceRefused, match="is no TOML"):
        read_source(path, "orders")
