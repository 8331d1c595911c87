"""`hub manual`: the pages, wherever the hub is installed."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest

from hub.cli import main, manual
from tests.cli.command import Command
from tests.cli.terminal import Terminal
from tests.manual.pages import MANUAL

NAMES = [page.name for page in manual.pages()]


def test_manual_without_a_page_lists_all_pages_with_their_subjects(lone_command: Command):
    done = lone_command("manual")
    assert done.returncode == 0
    lines = {line.split(maxsplit=1)[0]: line.split(maxsplit=1)[1] for line in done.stdout.splitlines() if "   " in line}
    assert {name: lines[name] for name in NAMES} == dict(manual.pages())


@pytest.mark.parametrize("word", ["queue", "Queue", "queue.md"])
def test_outside_a_terminal_a_manual_page_is_printed_unchanged(lone_command: Command, word: str):
    done = lone_command("manual", word)
    assert (done.returncode, done.stdout) == (0, (MANUAL / "queue.md").read_text())


def test_in_a_terminal_headings_and_tables_of_the_manual_are_rendered(lone_command: Command):
    terminal = Terminal(lone_command, "manual", "queue")
    assert terminal.end() == 0
    terminal.close()
    assert "\x1b[" in terminal.shown
    assert "Limits" in terminal.shown
    assert "## Limits" not in terminal.shown


@pytest.mark.parametrize(
    ("word", "suggested"),
    [
        ("quue", "did you mean queue?"),
        ("../security", "did you mean security?"),
        ("HubDwon", "did you mean HubDown?"),
        ("brak", "did you mean brake?"),
        ("", ""),
        ("no-such-word", ""),
    ],
)
def test_an_unknown_manual_word_is_refused_with_the_pages_and_similar_words(word, suggested, capsys):
    assert main(["manual", word]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert all(name in err for name in NAMES)
    assert suggested in err
    assert ("did you mean" in err) == bool(suggested)


ALERTS = re.findall(r"- alert: (\w+)", (Path(__file__).parents[2] / "deploy" / "alerts.yml").read_text())


@pytest.mark.parametrize("alert", ALERTS)
def test_manual_finds_an_alert_with_its_paragraph_on_any_page(alert, capsys):
    assert main(["manual", alert.lower()]) == 0
    out, err = capsys.readouterr()
    heading, _, paragraph = out.partition("\n\n")
    assert heading.endswith(f": {alert}")
    assert err == ""
    page = heading.removeprefix("## ").partition(":")[0]
    written = (MANUAL / f"{page}.md").read_text()
    assert paragraph.splitlines()[0] in written.partition(f"### {alert}\n")[2]


def test_manual_shows_the_meaning_of_a_word_first_and_then_the_pages_that_mention_it(capsys):
    assert main(["manual", "Brake"]) == 0
    out, err = capsys.readouterr()
    headings = [line for line in out.splitlines() if line.startswith("## ")]
    assert headings[0] == "## glossary: Glossary"
    assert len(headings) == manual.MOST
    assert all("brake" in part.lower() for part in out.split("## ")[1:])
    assert re.fullmatch(r"hub: \d+ more paragraphs with 'Brake' in: (hub manual \w+(, |\n))+", err)


def test_the_wheel_contains_every_manual_page(wheel):
    with zipfile.ZipFile(wheel) as found:
        carried = {name: found.read(name) for name in found.namelist() if name.startswith("hub/manual/")}
    pages = {f"hub/manual/{path.name}": path.read_bytes() for path in MANUAL.iterdir() if path.is_file()}
    assert carried == pages  # and no picture: those are for readers of the repository
