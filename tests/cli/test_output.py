"""Printed output: durations, foreign text, tables, closed pipes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hub.cli import output, tables
from tests.cli.command import Command, leave, register
from tests.world import HubProcess


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"), (-3, "0.0 s"), (2.44, "2.4 s"), (9.96, "10.0 s"), (10, "10 s"), (59.9, "59 s"), (60, "1 min"),
        (61, "1 min 1 s"), (3599, "59 min 59 s"), (3600, "1 h"), (3660, "1 h 1 min"), (90_000, "1 d 1 h"),
        (None, "-"), ("12", "-"), (True, "-"),
    ],
)  # fmt: skip
def test_durations_are_written_in_readable_units(seconds, text):
    assert output.duration(seconds) == text


def test_foreign_text_can_neither_break_a_line_nor_control_the_terminal():
    assert output.one_line("a\nb\x1b[2Jc\u2028d\udc80é") == "a\\nb\\x1b[2Jc\\u2028d\\udc80é"


def test_a_table_in_a_pipe_is_plain_text_of_any_width(capsys):
    tables.put_table(("NAME", "N"), [("x" * 300, 1), ("[red]y[/red]", 20), ("", None)], numbers=("N",))
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        f"{'NAME':300}    N",
        f"{'x' * 300}    1",
        f"{'[red]y[/red]':300}   20",
        f"{'-':300}    -",
    ]


def test_a_narrow_terminal_leaves_out_the_least_important_columns(monkeypatch, capsys):
    rows = [("a" * 10, "b" * 10, "c" * 10)]
    shown = []
    for width in (36, 35, 22):
        monkeypatch.setattr(tables, "_width", lambda _, width=width: width)
        tables.put_table(("A", "B", "C"), rows, expendable=("B", "A"))
        shown.append(capsys.readouterr().out.splitlines()[0].split())
    assert shown == [["A", "B", "C"], ["A", "C"], ["C"]]


def test_a_closed_pipe_is_no_failure(command: Command, shared_hub: HubProcess):
    register(shared_hub, "n1", pools={"gpu:a100": 900})
    hub = subprocess.Popen(
        [sys.executable, "-m", "hub.cli", "nodes", "n1"],
        env=command.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert hub.stdout is not None
    hub.stdout.close()
    _, err = hub.communicate(timeout=60)
    assert (hub.returncode, err) == (0, "")
    leave(shared_hub, "n1")
