"""`/docs`: it needs nothing but the hub."""

from __future__ import annotations

import hashlib
import re
import zipfile
from pathlib import Path

from hub.api.operators.documentation import TYPES
from hub.api.publish import FILE

TOP = Path(__file__).parents[2]
ASSETS = TOP / "hub" / "api" / "assets"


async def test_the_reference_page_loads_nothing_from_other_machines_and_runs_no_inline_code(api):
    page = await api.get("/docs")
    assert page.status_code == 200
    named = re.findall(r'(?:src|href)="([^"]*)"', page.text)
    assert [name for name in named if "//" in name] == []
    assert re.findall(r"<script>|\son\w+=", page.text) == []
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self';")
    assert "http" not in policy
    for name in named:
        if name != "data:,":
            answer = await api.get(f"/{name}")
            assert (answer.status_code, answer.headers["x-content-type-options"]) == (200, "nosniff")
            assert answer.headers["content-type"].startswith(TYPES[name.removeprefix("docs/")])
    assert 'url: "openapi.json"' in (await api.get("/docs/start.js")).text
    assert (await api.get("/openapi.json")).status_code == 200
    assert (await api.get("/redoc")).headers["location"] == "docs"


def test_the_wheel_contains_every_file_of_the_reference_page(wheel):
    with zipfile.ZipFile(wheel) as found:
        for path in ASSETS.iterdir():
            assert found.read(f"hub/api/assets/{path.name}") == path.read_bytes()
        assert found.read("hub/api/contract/openapi.json") == FILE.read_bytes()


async def test_only_the_files_of_the_reference_page_are_served(api):
    for name in ("other.js", "..%2Fops.py", "%2Fetc%2Fpasswd", ""):
        assert (await api.get(f"/docs/{name}")).status_code == 404


def test_third_party_files_are_listed_with_version_licence_and_contents():
    notice = (ASSETS / "NOTICE").read_text()
    (version,) = re.findall(r"Swagger UI (\S+),", notice)
    assert f'PACKAGE_VERSION:"{version}"' in (ASSETS / "swagger-ui-bundle.js").read_text()
    assert "Apache-2.0" in notice
    listed = {name: digest for digest, name in re.findall(r"([0-9a-f]{64})  (\S+)", notice)}
    assert listed == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in ASSETS.iterdir()
        if path.name not in ("NOTICE", "start.js")
    }
    assert {path.name for path in ASSETS.iterdir()} == set(TYPES)
