"""Rooms, jobs, tasks, runs, providers and users with names meant to break the page: it shows them as they are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import pytest
import pytest_asyncio

from tests.console.stage import J, Stage, staged
from tests.world import eventually

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]

NAMES = [
    "<img src=x onerror=alert(1)>", '"><script>alert(2)</script>', "<b>x</b>&amp;", "javascript;alert(3)", "a?x#y",
    "100%",
    "%2e%2e", "'); drop", "*", "{a}[b]?", "${7*7}", "\u202egnp.exe", "日本 é 🦀", "constructor", "__proto__", "x" * 100,
]  # fmt: skip
VIEWS = ("overview", "jobs", "tasks", "schedules", "leases", "queue", "events", "events/audit", "access", "stuck")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(own_server) -> AsyncIterator[Stage]:
    """A hub on which everything has such a name."""
    async with staged(own_server, HUB_ALLOWED_PROVIDER_CATEGORIES="*") as found:
        await found.publish("plain", {f"s{number}": "gpu:a100" for number in range(len(NAMES))})
        for name in NAMES:
            await _plant(found, name)
        yield found


async def _plant(stage: Stage, name: str) -> None:
    """Everything that may be called so; the rest is refused in a sentence."""
    admin, room = stage.admin, f"{J}/rooms/{quote(name, safe='')}"

    async def ask(method: str, path: str, body: dict[str, Any]) -> dict[str, Any] | None:
        answer = await (stage.runner if path == "/session/borrow" else admin).request(method, path, json=body)
        if answer.status_code == 400 and not name.isprintable():  # what hides characters is no name of a user or a run
            return None
        assert answer.is_success, answer.text
        return dict(answer.json())

    await ask("POST", "/admin/tokens", {"user": name})
    made = await ask("PUT", f"{room}/jobs", {"category": "modifiers", "name": name, "schema": {"title": name}})
    await ask("PUT", f"{room}/providers", {"category": name, "name": name, "schema": {}})
    await ask("POST", "/session/borrow", {"labelKey": "gpu:a100", "runId": name})
    assert made is not None
    await ask("POST", f"{room}/tasks/{quote(f'{name}:modifiers:{name}', safe='')}", {"payload": {name: name}})
    claimed = await ask("POST", f"{J}/tasks/claim", {"worker_id": made["worker_id"], "limit": 1, "start": True})
    assert claimed is not None
    await ask("PATCH", f"{J}/tasks/{claimed['tasks'][0]['id']}", {"status": "failed", "error": name})
    times = {"job": f"{name}:modifiers:{name}", "payload": {name: name}, "everySeconds": 5400}
    await ask("PUT", f"{room}/schedules/nightly", times)


async def test_no_hostile_text_of_jobs_becomes_markup_or_overflows_the_screen(looker):
    page, wide, text = looker.page, [], ""
    await page.set_viewport_size({"width": 390, "height": 844})
    for view in VIEWS:
        await looker.go(view)
        text += await looker.text()
        if await page.evaluate("document.documentElement.scrollWidth") > 390:
            wide.append(view)
        assert await page.locator("main img, main script, main b > b").count() == 0, view
    await page.set_viewport_size({"width": 1280, "height": 860})
    assert wide == []
    assert [name for name in NAMES if name not in text] == []


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name)[:20])
async def test_the_search_finds_objects_with_hostile_names(looker, name):
    await looker.go("overview")
    await looker.page.locator("#find").fill(name)
    await looker.page.keyboard.press("Enter")

    async def is_shown() -> bool:
        return name in await looker.text()

    await eventually(is_shown)
