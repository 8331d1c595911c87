"""`hub ui`: a link that logs in to the console once."""

from __future__ import annotations

import json
import stat
import sys
import webbrowser
from pathlib import Path
from typing import Any

import httpx
import pytest

from hub.cli import main
from tests.cli.command import Command
from tests.world import wait_until


@pytest.fixture
def hub(live_hub, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("DISABLE_DOTENV", "1")
    monkeypatch.setenv("HUB_URL", live_hub.url)
    monkeypatch.setenv("HUB_ADMIN_SECRET", live_hub.admin_secret)
    return live_hub


def test_the_login_link_works_once_and_logs_in_with_the_requested_role(hub, capsys):
    assert main(["ui", "--no-open", "--role", "viewer"]) == 0
    printed = capsys.readouterr()
    address, _, link = printed.out.strip().partition("#/login/")
    assert address == f"{hub.url}/"
    assert "good once, within 5 minutes, as viewer" in printed.err
    ask = {"json": {"link": link}, "headers": {"x-hub-console": "1"}}
    answer = httpx.post(f"{hub.url}/console/session", **ask)
    assert (answer.status_code, answer.json()["login"]["role"]) == (201, "viewer")
    assert httpx.post(f"{hub.url}/console/session", **ask).status_code == 404


def test_the_login_link_is_opened_where_there_is_a_screen(hub, capsys, monkeypatch, tmp_path):
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv("HUB_DATA_DIR", str(tmp_path / "data"))
    for _ in range(2):
        assert main(["ui"]) == 0
        link = capsys.readouterr().out.strip()
        assert link.startswith(f"{hub.url}/#/login/")
        assert f'content="0; url={link}"' in (tmp_path / "data" / "console.html").read_text()
    assert opened == [f"file://{tmp_path}/data/console.html"] * 2
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("data", "data/console.html")]
    assert modes == [0o700, 0o600]
    assert main(["ui", "--no-open"]) == 0
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    assert main(["ui"]) == 0  # it is not shown here
    assert len(opened) == 2


def test_the_login_link_is_in_no_command_line_of_a_process(hub, tmp_path, terminal):
    """A browser that prints its arguments, which every user of the machine could read."""
    (tmp_path / "browser").write_text(f'#!/bin/sh\necho "$0 $*" > {tmp_path}/started\n')
    (tmp_path / "browser").chmod(0o755)
    more = {"DISPLAY": ":0", "BROWSER": str(tmp_path / "browser")}
    seen = terminal(Command(hub, tmp_path), "ui", more=more)
    assert seen.end() == 0
    wait_until(lambda: (tmp_path / "started").exists() and (tmp_path / "started").read_text().endswith("\n"))
    link = seen.shown.split("#/login/")[1].split()[0]
    started = (tmp_path / "started").read_text()
    assert link not in started
    assert link in Path(started.split()[1].removeprefix("file://")).read_text()


def test_a_login_link_is_not_opened_when_its_private_file_cannot_be_made(hub, capsys, monkeypatch, tmp_path):
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("DISPLAY", ":0")
    (tmp_path / "file").touch()
    monkeypatch.setenv("HUB_DATA_DIR", str(tmp_path / "file"))
    assert main(["ui"]) == 0
    assert f"no browser is opened: {tmp_path}/file/console.html cannot be written" in capsys.readouterr().err
    assert opened == []


def test_the_login_link_can_be_printed_as_json(hub, capsys):
    assert main(["ui", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["url"].startswith(f"{hub.url}/#/login/")
    assert (found["role"], found["seconds"]) == ("admin", 300)


def test_ui_reports_a_wrong_secret_and_a_missing_hub_in_a_sentence(hub, capsys):
    assert main(["ui", "--secret", "guessed"]) != 0
    assert "Traceback" not in capsys.readouterr().err
    assert main(["ui", "--url", "http://127.0.0.1:9"]) != 0
    assert "No hub listens at http://127.0.0.1:9" in capsys.readouterr().err
