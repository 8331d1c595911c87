"""The imports of a command: it loads no packages that it does not use."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module

import pytest
import typer

from hub.cli.app import ENTRIES, GROUPS, NOUNS
from hub.cli.main_program import main
from tests.cli.command import Command, leave, register

# Those of the server, and what costs more than 10 ms.
SERVER = {
    "fastapi", "starlette", "uvicorn", "redis", "fakeredis", "socketio", "pydantic", "pydantic_settings", "structlog",
    "prometheus_client", "sqlalchemy", "taskiq", "jsonschema_rs", "hub.store", "hub.api", "hub.core", "httpx._main",
}  # fmt: skip
CLIENT = {"httpx", "rich.console", "asyncio", "hub.client", "hub.settings"}
IMPORTED = """
import json, sys
from hub.cli import main
code = main(sys.argv[1:])
print(json.dumps([code, sorted(name for name, found in sys.modules.items() if found is not None)]), file=sys.stderr)
"""


def imported(environment: dict[str, str], *words: str) -> set[str]:
    """The modules there are when the command has ended."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED, *words],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    code, modules = json.loads(done.stderr.splitlines()[-1])
    assert code in (0, 3, 4), done.stderr  # what `hub status` says of a hub that other tests use as well
    return set(modules)


def test_printing_the_version_imports_no_command(lone_command: Command):
    modules = imported(lone_command.environment, "--version")
    assert modules & (SERVER | CLIENT) == set()
    assert modules & {f"hub.cli.{entry.target.partition(':')[0]}" for entry in ENTRIES.values()} == set()


def test_listing_the_commands_imports_none_of_them(lone_command: Command):
    modules = imported(lone_command.environment, "--help")
    assert modules & (SERVER | {"httpx", "hub.client", "hub.settings"}) == set()
    assert modules & {f"hub.cli.{entry.target.partition(':')[0]}" for entry in ENTRIES.values()} == set()


@pytest.mark.parametrize("line", ["nodes", "pools", "leases", "queue", "status"])
def test_listing_from_a_live_hub_imports_nothing_of_the_server(line, command: Command):
    assert imported(command.environment, line) & SERVER == set()


def test_every_command_is_in_one_group_and_in_the_module_that_its_entry_names():
    assert sum(map(len, GROUPS.values())) == len(ENTRIES)
    assert list(GROUPS) == ["Lend", "Look", "Jobs", "Recover", "Run"]
    assert {name for name, entry in ENTRIES.items() if not entry.target} == set(NOUNS)
    verbs = [entry for noun in NOUNS.values() for entry in noun.values()]
    for entry in (*(each for each in ENTRIES.values() if each.target), *verbs):
        module, _, name = entry.target.partition(":")
        found = getattr(import_module(f"hub.cli.{module}"), name)
        assert isinstance(found, typer.Typer) or found.__doc__
        assert entry.hidden or entry.summary.endswith((".", "is."))


def test_help_shows_the_groups_in_their_order(capsys):
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    places = [out.index(f" {title} ──") for title in GROUPS]
    assert places == sorted(places)


def verbs(name: str) -> list[str]:
    """Return the commands below a command of the first level."""
    if name in NOUNS:
        return [*NOUNS[name]]
    module, _, attribute = ENTRIES[name].target.partition(":")
    found = getattr(import_module(f"hub.cli.{module}"), attribute)
    return [str(each.name) for each in found.registered_commands] if isinstance(found, typer.Typer) else []


# What is done to databases and to the store; `recovery ls` shows all there is to know of a record.
WORK = {"recovery", "store"}
ONLY_LISTED = {"audit", "team"}  # what has no id by which it could be shown
PAIRED = sorted(name for name in ENTRIES if verbs(name) and name not in WORK)


@pytest.mark.parametrize("noun", PAIRED)
def test_every_noun_has_the_commands_ls_and_show(noun, capsys):
    assert main([noun, "--help"]) == 0
    wanted = {"ls"} if noun in ONLY_LISTED else {"ls", "show"}
    assert wanted <= set(capsys.readouterr().out.replace("│", " ").split())
    if noun not in {"config", *ONLY_LISTED}:  # `config show` shows all settings
        assert main([noun, "show"]) == 2
        assert "Missing argument" in capsys.readouterr().err
    ids = {"queue": ("ls", "gpu:a100", "one")}.get(noun, ("ls", "one"))  # a queue is that of a label
    assert main([noun, *ids]) == 2
    assert "unexpected extra argument" in capsys.readouterr().err


def test_the_list_of_nouns_is_complete():
    assert PAIRED == [
        "audit", "caps", "config", "dead", "hook", "job", "lease", "node", "pool", "provider", "queue", "realm",
        "schedule", "slot", "task", "team", "token", "worker",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("noun_first", "as_before"),
    [
        ("node ls --state alive", "nodes --state alive"),
        ("node show n1", "nodes n1"),
        ("node drain n1", "drain n1"),
        ("node undrain n1", "undrain n1"),
        ("pool ls", "pools"),
        ("pool show gpu:a100", "pools gpu:a100"),
        ("lease ls", "leases"),
        ("task ls", "tasks"),
        ("queue ls", "queue"),
        ("caps ls", "caps"),
    ],
)
def test_a_command_gives_the_same_answer_in_its_new_and_its_old_form(
    noun_first, as_before, command: Command, shared_hub
):
    register(shared_hub, "n1", pools={"gpu:a100": 1})
    try:
        answers = [command(*line.split(), "--json") for line in (noun_first, as_before)]
    finally:
        leave(shared_hub, "n1")
    assert [done.returncode for done in answers] == [0, 0], answers[0].stderr
    assert [sorted(json.loads(done.stdout)) for done in answers] == [sorted(json.loads(answers[0].stdout))] * 2
