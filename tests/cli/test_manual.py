"""`hub manual`: the pages, wherever the hub is installed."""

from __future__ import annotations

import zipfile

import pytest

from hub.cli import manual
from tests.cli.command import Command
from tests.cli.terminal import Terminal
from tests.manual.pages import MANUAL

NAMES = [page.name for page in manual.pages()]


def test_without_a_page_all_are_named_with_what_they_are_about(lone_command: Command):
    done = lone_command("manual")
    assert done.returncode == 0
    lines = {line.split(maxsplit=1)[0]: line.split(maxsplit=1)[1] for line in done.stdout.splitlines() if "   " in line}
    assert {name: lines[name] for name in NAMES} == dict(manual.pages())


@pytest.mark.parametrize("word", ["queue", "Queue", "queue.md"])
def test_a_page_is_shown_as_it_was_written_where_nobody_looks_through_a_window(lone_command: Command, word: str):
    done = lone_command("manual", word)
    assert (done.returncode, done.stdout) == (0, (MANUAL / "queue.md").read_text())


def test_a_terminal_is_shown_headings_and_tables(lone_command: Command):
    terminal = Terminal(lone_command, "manual", "queue")
    assert terminal.end() == 0
    terminal.close()
    assert "\x1b[" in terminal.shown
    assert "Limits" in terminal.shown
    assert "## Limits" not in terminal.shown


@pytest.mark.parametrize("word", ["quue", "", "../security", "README"])
def test_an_unknown_page_is_refused_in_a_sentence_that_names_the_pages(lone_command: Command, word: str):
    done = lone_command("manual", word)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert all(name in done.stderr for name in NAMES)
    assert "Traceback" not in done.stderr


def test_an_installation_carries_every_page(wheel):
    with zipfile.ZipFile(wheel) as found:
        carried = {name: found.read(name) for name in found.namelist() if name.startswith("hub/manual/")}
    pages = {f"hub/manual/{path.name}": path.read_bytes() for path in MANUAL.iterdir() if path.is_file()}
    assert carried == pages  # and no picture: they are for whoever reads it in the repository
