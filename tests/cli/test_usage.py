"""Wrong command lines: refused with 2 and one sentence, before anything is sent."""

from __future__ import annotations

import socket
import sys
from io import BytesIO, TextIOWrapper

import pytest

from hub import __version__
from hub.cli import main
from tests.cli.command import Command

WRONG = {
    "borrow": "Missing argument 'LABEL'",
    "borrow gpu": "'gpu' is no label: it has too few segments",
    "borrow gpu::a100": "'gpu::a100' is no label",
    "borrow a:b:c:d:e:f:g:h:i": "more than eight segments",
    "borrow gpu:a100 --ttl 0": "'0' is not a number of seconds",
    "borrow gpu:a100 --ttl -5": "'-5' is not a number of seconds",
    "borrow gpu:a100 --ttl nan": "'nan' is not a number of seconds",
    "borrow gpu:a100 --wait soon": "'soon' is not a number of seconds",
    "borrow gpu:a100 --wait inf": "'inf' is not a number of seconds",
    "borrow gpu:a100 --priority 101": "--priority",
    "borrow gpu:a100 --priority high": "--priority",
    "queue gpu::a": "'gpu::a' is no label",
    "queue --limit 0": "--limit",
    "queue gpu:a100 more": "unexpected extra argument",
    "queue cancel": "Missing argument 'TICKET'",
    "queue cancel ..": "'..' is no id",
    "caps set gpu::a 1": "'gpu::a' is no label",
    "caps set gpu:a100": "Missing argument 'N'",
    "caps set gpu:a100 -1": "No such option",
    "caps set gpu:a100 many": "Invalid value for 'N'",
    "caps set gpu:a100 1000000000": "Invalid value for 'N'",
    "caps clear": "Missing argument 'LABEL'",
    "caps gpu:a100": "unexpected extra argument",
    "borrow gpu:a100 -- no-such-program": "The command 'no-such-program' is not on the PATH.",
    "borrow gpu:a100 -- ./no/such": "The command './no/such' is no program.",
    "borrow gpu:a100 --json -- true": "--json prints the slot",
    "borrow gpu:a100 --detach -- true": "--detach prints the slot",
    "borrow gpu:a100 --env CUDA -- true": "'CUDA' is not NAME=TEXT, such as CUDA_VISIBLE_DEVICES={index};",
    "borrow gpu:a100 --env A-B=1 -- true": "'A-B=1' is not NAME=TEXT",
    "borrow gpu:a100 --env 1A=1 -- true": "'1A=1' is not NAME=TEXT",
    "borrow gpu:a100 --env Ä=1 -- true": "'Ä=1' is not NAME=TEXT",
    "borrow gpu:a100 --env A=1 --env A=2 -- true": "--env names 'A' twice.",
    "borrow gpu:a100 --env A=1": "--env sets a variable of COMMAND, and there is none.",
    "borrow gpu:a100 --count 0": "Invalid value for '--count'",
    "borrow gpu:a100 --count 17": "Invalid value for '--count'",
    "borrow gpu:a100 --count 2 --prefer x": "--count takes slots of one LABEL: not with --any-of,",
    "borrow gpu:a100 --count 2 --any-of cpu:large": "--count takes slots of one LABEL",
    "borrow gpu:a100 --count 2 --realms eu": "--count takes slots of one LABEL",
    "borrow gpu:a100 --count 2 --detach": "A bundle cannot be detached yet: leave out --detach",
    "borrow gpu:a100 --same-node": "--same-node and --together are about several slots: say how many with --count.",
    "borrow gpu:a100 --together": "--same-node and --together are about several slots",
    "audit ls --limit 0": "--limit",
    "agent --slots gpu:a100": "'gpu:a100' is not LABEL=N",
    "agent --slots gpu=2": "'gpu' is no label",
    "agent --slots gpu:a100=0": "does not end in a number of slots from 1 to 100000",
    "agent --slots gpu:a100=-1": "does not end in a number of slots",
    "agent --slots gpu:a100=2.5": "does not end in a number of slots",
    "agent --slots gpu:a100=1 --slots gpu:a100=2": "--slots names 'gpu:a100' twice.",
    "agent --label region": "'region' is not KEY=VALUE",
    "agent --label =eu": "'=eu' is not KEY=VALUE",
    "agent --label a=1 --label a=2": "--label names 'a' twice.",
    "agent --token-file /": "'/' is a directory",
    "agent --policy sometimes": "--policy",
    "agent --base-url nowhere": "'nowhere' is no address",
    "agent -- no-such-program": "The command 'no-such-program' is not on the PATH.",
    "nodes --state asleep": "--state",
    "nodes --limit 0": "--limit",
    "nodes --limit many": "--limit",
    "nodes --url ftp://hub": "'ftp://hub' is no address of a hub",
    "nodes --url http://": "is no address of a hub",
    "nodes --url http://hub:99999": "is no address of a hub",
    "nodes n1 --state alive": "NODE and --state exclude each other.",
    "pools gpu": "'gpu' is no label",
    "leases --label a:b --run r1": "--label and --run exclude each other.",
    "leases s1 --node n1": "SLOT and --node exclude each other.",
    "return": "Missing argument 'SLOT'",
    "return s1 --label gpu::a": "'gpu::a' is no label",
    "drain": "Missing argument 'NODE'",
    "drain ..": "'..' is no id",
    "drain n1 --deadline soon": "'soon' is not a time from 1s to 7d, such as 90s, 10m or 2h;",
    "drain n1 --deadline 0": "'0' is not a time from 1s to 7d",
    "drain n1 --deadline 8d": "'8d' is not a time from 1s to 7d",
    "drain n1 --deadline 10min": "'10min' is not a time from 1s to 7d",
    "autoscale gpu": "'gpu' is no label",
    "autoscale gpu:a100 --min -1": "--min",
    "autoscale": "Say which: a LABEL, or --job JOB.",
    "autoscale gpu:a100 --job @global:analysis:Square": "Say which: a LABEL, or --job JOB.",
    "autoscale --job Square": "Square",
    "autoscale gpu:a100 --min 3 --max 2": "--min is above --max.",
    "sweep": "say --once",
    "expire maybe": "'maybe' is not one of 'on', 'off', 'default'",
    "brake engage": "'engage' is not one of 'status', 'release'",
    "serve --port 65536": "--port",
    "serve --workers 0": "--workers",
    "demo --port -1": "--port",
    "borrow gpu:a100 --exit-code-on-refusal 0": "--exit-code-on-refusal",
    "paint": "No such command 'paint'",
    "nodes --colour": "No such option: --colour",
}
OF_JOBS = {
    "submit": "Missing argument 'JOB'",
    "submit one:modifiers": "'one:modifiers' is no job: write ROOM:CATEGORY:NAME",
    "submit o@e:modifiers:a": "'o@e' is no room",
    "submit one:modifiers:a [1]": "PAYLOAD is no JSON object",
    "submit one:modifiers:a {": "PAYLOAD is no JSON: ",
    'submit one:modifiers:a {"x":NaN}': "NaN is no number",
    'submit one:modifiers:a {"x":1e999}': "PAYLOAD is no JSON: ",
    r'submit one:modifiers:a {"x":"\ud800"}': "PAYLOAD is not text in UTF-8",
    "submit one:modifiers:a -": "What stands on stdin is not text in UTF-8.",
    "submit one:modifiers:a --priority 101": "--priority",
    "submit one:modifiers:a --max-attempts 0": "--max-attempts",
    "submit one:modifiers:a --not-before soon": "'soon' is no time with its offset",
    "submit one:modifiers:a --not-before 2030-01-01T00:00:00": "is no time with its offset",
    "submit one:modifiers:a --key schlüssel": "is no key",
    "submit one:modifiers:a --room a/b": "'a/b' is no room",
    "submit one:modifiers:a --token a --secret b": "--token and --secret exclude each other.",
    "submit one:modifiers:a --token ä": "The token has characters",
    "cancel one": "'one' is no UUID",
    "retry": "Missing argument 'TASK'",
    "tasks --status done": "--status",
    "tasks --room a:b": "'a:b' is no room",
    "tasks --limit 0": "--limit",
    "jobs --room @mine": "'@mine' is no room",
    "workers --limit many": "--limit",
    "dead": "Missing command",
    "dead show one": "'one' is no UUID",
    "events --task one": "'one' is no UUID",
}
OF_TOKENS = {
    "token": "Missing command",
    "token create": "Missing option '--user'",
    "token create --user ann bob": "Got unexpected extra argument",
    "token create --user=": "'' must be 1 to 200 printable characters",
    f"token create --user {'x' * 201}": "must be 1 to 200 printable characters",
    "token create --user a\x07": "must be 1 to 200 printable characters",
    "token create --user ann --user-id 7": "'7' must be a UUID",
    "token create --user ann --scope all": "'all' is none of worker, submit, read, admin",
    "token create --user ann --scope": "'--scope' requires an argument",
    "token create --user ann --node rack-7": "--user and --node exclude each other",
    "borrow gpu:a100 --count nan": "Invalid value for '--count': 'nan' is not a whole number;",
    "pool set gpu:* --ttl 2d": "'2d' is not a time from 1s to 1d, or none, such as 90s, 10m or 2h;",
    "schedule add s @global:a:b --every 90s --cron x": "--cron and --every exclude each other.",
    "team set  --label gpu:*": "Invalid value for 'TEAM': '' must be 1 to",
    "team rm ml --label ": "Invalid value for '--label': '' must be 1 to",
    "pool unset ": "Invalid value for 'PATTERN': '' must be 1 to",
    "schedule add s @global:a:b": "Say at which times: --cron or --every.",
    "token create --node rack-7 --room lab": "--room, --label, --team and --max-priority are for tokens of users",
    "token revoke": "Missing argument 'ID'",
    "token revoke ..": "'..' is no id",
    "token revoke a b": "unexpected extra argument",
    "token ls all": "unexpected extra argument",
    "token remove": "No such command 'remove'",
}
LINES = [*WRONG.items(), *OF_JOBS.items(), *OF_TOKENS.items()]


@pytest.mark.parametrize(("line", "sentence"), LINES, ids=[repr(line)[1:60] for line, _ in LINES])
def test_a_wrong_command_line_is_refused_in_one_sentence_before_any_request(line, sentence, monkeypatch, capsys):
    def no_network(*_: object, **__: object) -> None:
        raise AssertionError("the network was touched")

    monkeypatch.setattr(socket, "socket", no_network)
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b"\xff")))
    monkeypatch.setenv("DISABLE_DOTENV", "1")
    code = main(line.split(" "))
    out, err = capsys.readouterr()
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith('{"code": "usage", ' if "--json" in line.partition(" -- ")[0] else "hub: ")
    assert sentence in err


def test_an_address_in_the_environment_is_checked_too(monkeypatch, capsys):
    monkeypatch.setenv("DISABLE_DOTENV", "1")
    monkeypatch.setenv("HUB_URL", "not-a-url")
    assert main(["nodes"]) == 2
    assert (
        capsys.readouterr().err == "hub: HUB_URL: 'not-a-url' is no address of a hub, such as http://127.0.0.1:8080.\n"
    )


@pytest.mark.parametrize(
    "words", [[], ["--help"], ["borrow", "--help"], ["demo", "-h"], ["queue", "-h"], ["caps", "--help"]], ids=str
)
def test_help_is_printed_with_exit_code_0(words, capsys):
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert "Usage: hub" in out
    assert err == ""


def test_the_version_is_printed(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"capacity-hub {__version__}\n"


@pytest.mark.parametrize(
    "line",
    [
        "nodes",
        "pools",
        "leases",
        "drain n1",
        "undrain n1",
        "sweep --once",
        "expire",
        "brake",
        "return s1",
        "autoscale a:b",
        "queue",
        "queue cancel t1",
        "caps",
        "caps set a:b 1",
    ],
)
def test_without_a_hub_or_a_store_a_command_says_what_to_do(line, lone_command: Command):
    done = lone_command(*line.split())
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert "No hub listens at http://127.0.0.1:9" in done.stderr
    assert "hub serve" in done.stderr


def test_a_hub_named_on_the_command_line_is_never_replaced_by_a_local_store(lone_command: Command, redis_server):
    done = lone_command("nodes", "--url", "http://127.0.0.1:9", HUB_REDIS_URL=redis_server.url)
    assert (done.returncode, done.stderr) == (1, "hub: No hub listens at http://127.0.0.1:9.\n")


def test_borrowing_without_a_hub_fails(lone_command: Command):
    done = lone_command("borrow", "gpu:a100", "--", "true")
    assert (done.returncode, done.stderr) == (69, "hub: No hub listens at http://127.0.0.1:9.\n")


@pytest.mark.parametrize("text", [",", " ;, "])
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("HUB_URL", ["pools"]),
        ("HUB_TOKEN", ["job", "ls"]),
        ("HUB_REDIS_URL", ["doctor"]),
        ("HUB_REDIS_URL", ["serve"]),
        ("HUB_RUNNER_SECRET", ["serve"]),
        ("HUB_ZOMBIE_WEBHOOK_URL", ["serve"]),
        ("DASHBOARD_URL", ["serve"]),
    ],
)
def test_a_variable_that_is_only_separators_is_refused_in_one_sentence(
    command: Command, name: str, words: list[str], text: str
):
    done = command(*words, **{name: text})
    assert (done.returncode > 0, done.stdout) == (True, ""), done.stderr
    sentence = done.stderr.splitlines()[-1]
    assert (sentence.startswith("hub: "), name in sentence, sentence[-1], "Traceback" in done.stderr) == (
        True,
        True,
        ".",
        False,
    )
