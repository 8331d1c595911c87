"""The files of the console: small, and none of them needs another machine."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from hub.console import files
from tests.console.look import BEHIND, KEPT, KINDS, MANUAL, VIEWS

READ = """
import vm from "node:vm";
import { readFileSync } from "node:fs";
const modules = Object.entries(JSON.parse(readFileSync(0, "utf8")));
for (const [identifier, text] of modules) new vm.SourceTextModule(text, { identifier });
console.log(modules.length);
"""


OF_THE_CONSOLE = ("hub/console/", "hub/api/console/", "hub/manual/console.", "hub/cli/ui.py", "hub/tokens/logins.py")


def size(wheel: Path, folder: Path, leave_out: tuple[str, ...] = ()) -> int:
    """Bytes of a wheel, packed anew without these files."""
    path = folder / "packed.whl"
    with zipfile.ZipFile(wheel) as whole, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in whole.namelist():
            if not name.startswith(leave_out):
                packed.writestr(name, whole.read(name))
    return path.stat().st_size


def test_the_console_adds_at_most_165_000_bytes_to_the_wheel(wheel, tmp_path):
    """Borrowing on the page took nine thousand of them, and the page of who used what takes its own."""
    whole, without = size(wheel, tmp_path, ("none",)), size(wheel, tmp_path, OF_THE_CONSOLE)
    assert 90_000 < whole - without <= 165_000, whole - without
    names = zipfile.ZipFile(wheel).namelist()
    assert {"hub/console/app.js", "hub/console/vendor/LICENSES.txt", "hub/manual/console.webp"} <= set(names)
    assert [name for name in names if name.startswith("hub/manual/screens")] == []


def test_the_wheel_contains_exactly_the_screenshots_that_the_manual_shows():
    screens = MANUAL / "screens"
    shown = re.findall(r"\]\((.+?)\.webp\)", (screens / "README.md").read_text())
    assert sorted(shown) == sorted(KEPT) == sorted(path.stem for path in screens.glob("*.webp"))
    assert set(KEPT) <= {f"{name}-{kind}" for name in (*VIEWS, *BEHIND) for kind in KINDS}


def test_every_module_of_the_console_has_at_most_300_lines():
    ours = {n: each.content.count(b"\n") for n, each in files().items() if n.endswith(".js") and "vendor" not in n}
    assert {name: lines for name, lines in ours.items() if lines > 300} == {}


def test_no_line_of_the_console_is_long():
    ours = {n: each.content.decode().splitlines() for n, each in files().items() if not re.search("vendor|svg$", n)}
    assert {name: line for name, lines in ours.items() for line in lines if len(line) > 140} == {}


def test_no_file_of_the_console_evaluates_text_or_loads_from_another_machine():
    ours = {n: each.content.decode() for n, each in files().items() if "vendor" not in n}
    for name, text in ours.items():
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\(|new Function|style=|onclick=", text
        ), name
        if not name.endswith(".svg"):
            assert not re.search(r"(src|href)=\"https?:|import[^;]*https?:|url\(", text), name


def test_every_third_party_file_is_listed_with_its_version_and_licence():
    said = files()["vendor/LICENSES.txt"].content.decode()
    for name in files():
        if name.startswith("vendor/") and name != "vendor/LICENSES.txt":
            assert name.removeprefix("vendor/") in said
    assert {"preact 11.2.0 MIT", "htm 3.1.1 Apache-2.0", "uplot 1.6.32 MIT"} <= set(
        re.findall(r"^== (\w+ \S+ \S+)", said, re.M)
    )


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node to read the modules with")
def test_every_module_of_the_console_is_readable_source():
    modules = {name: each.content.decode() for name, each in files().items() if name.endswith(".js")}
    command = ["node", "--no-warnings", "--experimental-vm-modules", "--input-type=module", "-e", READ]
    read = subprocess.run(command, input=json.dumps(modules), capture_output=True, text=True, timeout=60)
    assert (read.returncode, read.stderr, read.stdout.strip()) == (0, "", str(len(modules)))
