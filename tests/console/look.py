"""`make screenshots`: every view of the console, light, dark and narrow; the manual gets the eight that it shows."""

from __future__ import annotations

import asyncio
import base64
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Page

from tests.console.browser import Looker, Window
from tests.console.stage import CROWDED, Records, Stage, full_house, node_name, staged
from tests.world import RedisServer

ROOT = Path(__file__).parents[2]
MANUAL = ROOT / "hub/manual"
SHOTS = ROOT / "build/screens"
KEPT = (
    "overview-dark", "overview-narrow", "node-light", "leases-light",
    "queue-light", "task-light", "stuck-light", "why-dark",
)  # fmt: skip
WIDE, NARROW = {"width": 1280, "height": 860}, {"width": 390, "height": 844}
KINDS = {"light": ("light", WIDE), "dark": ("dark", WIDE), "narrow": ("light", NARROW)}
VIEWS = {
    "overview": "overview", "pools": "pools", "pool": f"pools/{CROWDED}", "nodes": "nodes",
    "node": f"nodes/{node_name(2)}",
    "leases": "leases", "queue": "queue", "usage": "usage?by=slot", "teams": "teams",
    "jobs": "jobs", "tasks": "tasks?status=dead", "failed": "tasks?status=failed",
    "schedules": "schedules",
    "stuck": "stuck", "source": "stuck/orders", "events": "events", "audit": "events/audit",
    "why": f"why/slot/{node_name(2)}-0", "switches": "switches", "settings": "settings", "realms": "realms",
    "access": "access", "manual": "manual/concepts",
}  # fmt: skip
# What is behind a view: its name, the view, and what is pressed there.
BEHIND = {
    "job": ("jobs/lab:modifiers:Rotate", ""),
    "task": ("tasks?status=dead", "tbody button.link"),
    "dialog": (f"nodes/{node_name(2)}", "text=Remove…"),
    "keys": ("overview", "[aria-label='Keys and help']"),
}
LOGIN = "login"
# A smaller picture of another kind, as the browser makes it: a fifth of the bytes.
PACK = """async ([png, quality, scale]) => {
  const picture = new Image();
  picture.src = `data:image/png;base64,${png}`;
  await picture.decode();
  const sheet = new OffscreenCanvas(picture.width * scale, picture.height * scale);
  const pen = sheet.getContext("2d");
  pen.imageSmoothingQuality = "high";
  pen.drawImage(picture, 0, 0, sheet.width, sheet.height);
  const bytes = new Uint8Array(await (await sheet.convertToBlob({ type: "image/webp", quality })).arrayBuffer());
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
}"""


async def look(only: set[str]) -> None:
    async with _staged() as stage:
        window = await Window.open()
        packer = await (await window.context()).new_page()
        for kind, (theme, size) in KINDS.items():
            context = await window.context(color_scheme=theme, viewport=size)
            looker = Looker(await context.new_page(), stage.hub.url)
            await looker.page.goto(f"{stage.hub.url}/")
            await looker.page.get_by_label("Secret or token").wait_for()
            await _shoot(looker.page, packer, SHOTS / f"{LOGIN}-{kind}.webp")
            await looker.log_in(stage.hub.admin_secret)
            for name, (view, pressed) in {**{name: (view, "") for name, view in VIEWS.items()}, **BEHIND}.items():
                if not only or name in only:
                    await looker.go(view)
                    if pressed:
                        await looker.page.locator(pressed).first.click()
                    await looker.page.wait_for_timeout(600)
                    await _shoot(looker.page, packer, SHOTS / f"{name}-{kind}.webp")
                    await looker.page.keyboard.press("Escape")
            if kind == "light":
                await looker.page.set_viewport_size({"width": 1120, "height": 720})
                await looker.go("overview")
                await looker.page.wait_for_timeout(3000)
                await _shoot(looker.page, packer, MANUAL / "console.webp", 0.15, 0.5)
            print(kind, looker.complaints)
            await context.close()
        await window.close()
    _write(SHOTS / "README.md", listed().encode())
    for name in KEPT:
        if (shot := SHOTS / f"{name}.webp").exists():
            _write(MANUAL / "screens" / shot.name, shot.read_bytes())


@asynccontextmanager
async def _staged() -> AsyncIterator[Stage]:
    with tempfile.TemporaryDirectory() as folder:
        records = Records(Path(folder))
        with RedisServer(Path(folder)) as server:
            async with staged(server, HUB_RECOVERY_FILE=str(records.file)) as stage:
                await full_house(stage, records)
                yield stage


async def _shoot(page: Page, packer: Page, path: Path, quality: float = 0.5, scale: float = 0.75) -> None:
    png = base64.b64encode(await page.screenshot()).decode()
    _write(path, base64.b64decode(await packer.evaluate(PACK, [png, quality, scale])))


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def listed() -> str:
    """Return the page that shows them all."""
    rows = [
        f"| {name} | " + " | ".join(f"![{name}, {kind}]({name}-{kind}.webp)" for kind in KINDS) + " |"
        for name in (LOGIN, *VIEWS, *BEHIND)
    ]
    head = ["| | " + " | ".join(KINDS) + " |", "|" + "---|" * (len(KINDS) + 1)]
    about = "Every view of the console, as `make screenshots` has shown it."
    return "\n".join(["# Screens of the console", "", about, "", *head, *rows, ""])


if __name__ == "__main__":
    asyncio.run(look(set(sys.argv[1:])))
