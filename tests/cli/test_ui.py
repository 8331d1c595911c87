"""`hub ui`: a link that logs in to the console once."""

from __future__ import annotations

import json
import sys
import webbrowser
from typing import Any

import httpx
import pytest

from hub.cli import main


@pytest.fixture
def hub(live_hub, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("DISABLE_DOTENV", "1")
    monkeypatch.setenv("HUB_URL", live_hub.url)
    monkeypatch.setenv("HUB_ADMIN_SECRET", live_hub.admin_secret)
    return live_hub


def test_the_link_logs_in_once_in_the_role_that_was_asked_for(hub, capsys):
    assert main(["ui", "--no-open", "--role", "viewer"]) == 0
    said = capsys.readouterr()
    address, _, link = said.out.strip().partition("#/login/")
    assert address == f"{hub.url}/"
    assert "good once, within 5 minutes, as viewer" in said.err
    ask = {"json": {"link": link}, "headers": {"x-hub-console": "1"}}
    answer = httpx.post(f"{hub.url}/console/session", **ask)
    assert (answer.status_code, answer.json()["login"]["role"]) == (201, "viewer")
    assert httpx.post(f"{hub.url}/console/session", **ask).status_code == 404


def test_the_link_is_opened_where_there_is_a_screen(hub, capsys, monkeypatch):
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("DISPLAY", ":0")
    assert main(["ui"]) == 0
    assert opened == [capsys.readouterr().out.strip()]
    assert opened[0].startswith(f"{hub.url}/#/login/")
    assert main(["ui", "--no-open"]) == 0
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    assert main(["ui"]) == 0  # nobody sees it here
    assert len(opened) == 1


def test_programs_get_the_link_as_json(hub, capsys):
    assert main(["ui", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["url"].startswith(f"{hub.url}/#/login/")
    assert (found["role"], found["seconds"]) == ("admin", 300)


def test_a_wrong_secret_and_a_hub_that_is_not_there_are_told_in_a_sentence(hub, capsys):
    assert main(["ui", "--secret", "guessed"]) != 0
    assert "Traceback" not in capsys.readouterr().err
    assert main(["ui", "--url", "http://127.0.0.1:9"]) != 0
    assert "No hub listens at http://127.0.0.1:9" in capsys.readouterr().err
