"""`make screenshots`: every view of the console, light and dark, wide and narrow, into tests/console/shots."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from tests.console.browser import Looker, Window
from tests.console.stage import CALM, CROWDED, Records, full_house, node_name, on_stage
from tests.world import HubProcess, RedisServer

SHOTS = Path(__file__).parent / "shots"
VIEWS = {
    "overview": "overview", "pools": "pools", "pool": f"pools/{CROWDED}", "nodes": "nodes",
    "node": f"nodes/{node_name(2)}",
    "leases": "leases", "queue": "queue", "jobs": "jobs", "tasks": "tasks?status=dead", "failed": "tasks?status=failed",
    "stuck": "stuck", "source": "stuck/orders", "events": "events", "audit": "events/audit",
    "why": f"why/slot/{node_name(2)}-0", "switches": "switches", "settings": "settings", "access": "access",
    "manual": "manual/concepts",
}  # fmt: skip


async def look(only: set[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        server, records = RedisServer(Path(folder)), Records(Path(folder))
        server.start()
        hub = HubProcess({**CALM, "HUB_REDIS_URL": server.url, "HUB_RECOVERY_FILE": str(records.file)})
        try:
            hub.wait_until_ready()
            async with on_stage(hub) as stage:
                await full_house(stage, records)
                await shoot(hub, only)
        finally:
            hub.kill()
            server.stop()


async def shoot(hub: HubProcess, only: set[str]) -> None:
    SHOTS.mkdir(exist_ok=True)
    window = await Window.open()
    for theme, size in (("light", (1280, 860)), ("dark", (1280, 860)), ("light", (390, 844))):
        context = await window.context(color_scheme=theme, viewport={"width": size[0], "height": size[1]})
        looker = Looker(await context.new_page(), hub.url)
        await looker.page.goto(f"{hub.url}/")
        await looker.page.get_by_label("Secret or token").wait_for()
        kind = "narrow" if size[0] < 600 else theme
        await looker.page.screenshot(path=SHOTS / f"login-{kind}.png")
        await looker.log_in(hub.admin_secret)
        for name, view in VIEWS.items():
            if not only or name in only:
                await looker.go(view)
                await looker.page.wait_for_timeout(600)
                await looker.page.screenshot(path=SHOTS / f"{name}-{kind}.png")
        if kind == "light":
            await looker.page.set_viewport_size({"width": 1120, "height": 720})
            await looker.go("overview")
            await looker.page.wait_for_timeout(3000)
            await looker.page.screenshot(path=SHOTS / "console.jpg", type="jpeg", quality=45)
        print(kind, looker.complaints)
        await context.close()
    await window.close()


if __name__ == "__main__":
    asyncio.run(look(set(sys.argv[1:])))
