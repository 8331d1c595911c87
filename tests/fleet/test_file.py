"""The fleet file: what it may say, and the sentence for each mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from hub.errors import StartRefused
from hub.fleet.file import read_fleet

GOOD = """node = "rack-7"

[[pools]]
label = "worker:render"
driver = "process"
command = ["python", "-m", "http.server", "{port}"]
count = 3
address = "http://{host}:{port}"
recycle = { uses = 50, age = "2h", memory = "1500M" }

[[pools]]
label = "phone:android"
driver = "command"
items = ["emulator-5554", "emulator-5556"]
start = ["emulator-start", "{item}"]
address = { command = ["adb-address", "{item}"] }

[pools.check]
command = ["adb", "-s", "{item}", "get-state"]
every = "500ms"
expect = "device"
"""
MISTAKES = {
    "unknown top key": ('node = "rack-7"', 'nod = "rack-7"', 1, "nod is unknown; did you mean 'node'?"),
    "node no text": ('node = "rack-7"', "node = 7", 1, "node must be a text."),
    "no list of pools": ("[[pools]]\nlabel", "[pools]\nlabel", 11, "it is no TOML: Cannot overwrite a value."),
    "no TOML": ("count = 3", "count = = 3", 7, "it is no TOML: Invalid value."),
    "unknown driver": ('"process"', '"proces"', 5, "there is no driver 'proces'; did you mean 'process'?"),
    "no driver": ('driver = "process"', "", 3, "driver must be the name of a driver, as text."),
    "unknown key": ("count = 3", "cuont = 3", 7, "cuont is unknown; did you mean 'count'?"),
    "unknown key of a line": ("uses = 50", "use = 50", 9, "recycle.use is unknown; did you mean 'uses'?"),
    "unknown key of a table": ('every = "500ms"', 'evry = "2s"', 20, "check.evry is unknown; did you mean 'every'?"),
    "wrong type": ("count = 3", 'count = "3"', 7, "count: input should be a valid integer."),
    "too small": ("count = 3", "count = 0", 7, "count: input should be greater than or equal to 1."),
    "no unit": ('"500ms"', "2", 20, "check.every is no duration: write a number and its unit as text, such as '2s'."),
    "unknown unit": ('"2h"', '"2hours"', 9, "recycle.age has no known unit: '2hours'; did you mean '2h'?"),
    "unknown unit of a size": (
        '"1500M"', '"1500MB"', 9,
        "recycle.memory has no known unit: '1500MB'; did you mean '1500M'?",
    ),
    "a duration for a size": ('"1500M"', '"2s"', 9, "recycle.memory has no known unit: '2s'; the units are K, M, G."),
    "label twice": (
        '"phone:android"', '"worker:render"', 12,
        "the label 'worker:render' stands above already; name each once.",
    ),
    "no label": (
        '"phone:android"', '"phone"', 12,
        "label 'phone' is no label: it has too few segments; write at least two, such as gpu:a100.",
    ),
    "unknown name": ('"{port}"]', '"{prot}"]', 6, "command has an unknown name {prot}; did you mean '{port}'?"),
    "unknown name in an address": ("{host}", "{hots}", 8, "address has an unknown name {hots}; did you mean '{host}'?"),
    "missing key": ('command = ["python", "-m", "http.server", "{port}"]', "", 3, "command is missing."),
    "unknown key of an address": (
        "{ command = [\"adb-a", "{ comand = [\"adb-a", 16,
        "address.comand is unknown; did you mean 'command'?",
    ),
    "no expression": (
        '"device"', '"(device"', 21,
        "check.expect is no regular expression: missing ), unterminated subpattern at position 0.",
    ),
    "neither items nor count": (
        'items = ["emulator-5554", "emulator-5556"]', "", 11,
        "a pool of this driver has either items, a list of names, or count, a number.",
    ),
}  # fmt: skip


def test_a_fleet_file_is_read_with_its_units(tmp_path: Path):
    (tmp_path / "fleet.toml").write_text(GOOD)
    file = read_fleet(tmp_path / "fleet.toml")
    render, phones = (driver.table for driver in file.drivers)
    assert (file.node, render.label, phones.label) == ("rack-7", "worker:render", "phone:android")
    assert (render.recycle.age, render.recycle.memory, phones.check.every) == (7200.0, 1500 * 2**20, 0.5)


@pytest.mark.parametrize(("right", "wrong", "line", "sentence"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_refused_in_one_sentence_with_its_line(right, wrong, line, sentence, tmp_path: Path):
    assert right in GOOD
    (tmp_path / "fleet.toml").write_text(GOOD.replace(right, wrong, 1))
    with pytest.raises(StartRefused) as refused:
        read_fleet(tmp_path / "fleet.toml")
    assert str(refused.value) == f"fleet.toml, line {line}: {sentence}"


DESCRIBED = """[[pools]]
label = "phone:android"
driver = "command"
items = ["emulator-5554"]
attributes = { api = 34.0, features = ["nfc", "5g"] }
warm = ["repo-42"]
describe = ["describe", "{item}"]
"""


def test_a_pool_says_what_its_slots_are_like(tmp_path: Path):
    (tmp_path / "fleet.toml").write_text(DESCRIBED)
    (driver,) = read_fleet(tmp_path / "fleet.toml").drivers
    assert driver.table.attributes == {"api": 34, "features": ["5g", "nfc"]}
    assert driver.table.warm == ["repo-42"]


@pytest.mark.parametrize(
    ("right", "wrong", "line", "sentence"),
    [
        ("api = 34.0", '"api level" = 34', 5, "attributes: a name has at most 64 letters"),
        ("api = 34.0", "api = { level = 34 }", 5, "attributes: api must be a number, a text, true, false"),
        ("api = 34.0", "api = 2026-01-02", 5, "attributes: api must be a number, a text, true, false"),
        ('["repo-42"]', '["repo 42"]', 6, "warm: a key has 1 to 64 characters"),
        ('["repo-42"]', '"repo-42"', 6, "warm: input should be a valid list."),
        ("{item}", "{itm}", 7, "describe.command has an unknown name {itm}; did you mean '{item}'?"),
    ],
)
def test_what_no_hub_takes_is_refused_with_its_line(right, wrong, line, sentence, tmp_path: Path):
    (tmp_path / "fleet.toml").write_text(DESCRIBED.replace(right, wrong, 1))
    with pytest.raises(StartRefused) as refused:
        read_fleet(tmp_path / "fleet.toml")
    assert str(refused.value).startswith(f"fleet.toml, line {line}: {sentence}")


def test_a_file_that_is_missing_or_empty_is_refused(tmp_path: Path):
    with pytest.raises(StartRefused, match="cannot be read: No such file or directory"):
        read_fleet(tmp_path / "fleet.toml")
    (tmp_path / "fleet.toml").touch()
    with pytest.raises(StartRefused, match="pools must be a list of tables; write"):
        read_fleet(tmp_path / "fleet.toml")


def test_the_file_of_the_manual_can_be_used(tmp_path: Path):
    page = (Path(__file__).parents[2] / "hub/manual/fleet.md").read_text()
    (tmp_path / "fleet.toml").write_text(page.split("```toml\n")[1].split("```")[0])
    file = read_fleet(tmp_path / "fleet.toml")
    assert [driver.table.driver for driver in file.drivers] == ["chromium", "gpu", "command", "process"]
