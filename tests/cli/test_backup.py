"""`hub store export`, `hub store import` and `hub store version`."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from hub.store.formats import FORMAT
from hub.store.library import library
from tests.cli.command import Command
from tests.world import RedisServer, wait_until


def test_a_copy_of_the_store_can_be_written_and_read_while_no_hub_runs(
    own_hub, own_command: Command, redis_server: RedisServer, tmp_path
):
    file = tmp_path / "copy"
    at = {"HUB_REDIS_URL": redis_server.url}
    refused = own_command("store", "export", str(file), **at)
    assert refused.returncode == 1
    assert refused.stderr.startswith("hub: Hubs use this store (1); stop them first")
    assert not file.exists()
    own_hub.kill()
    wait_until(lambda: own_command("store", "export", str(file), **at).returncode == 0)
    assert (
        own_command("store", "export", str(file), **at).stderr
        == f"hub: {file} is there already; name a file that is not.\n"
    )
    assert own_command("store", "import", str(file), **at).stderr.startswith("hub: The store is not empty: it has ")
    redis_server.client().flushall()
    done = own_command("store", "import", str(file), **at)
    assert (done.returncode, done.stdout.split(" keys of ")[1]) == (0, f"{redis_server.url} are in the store.\n")
    assert own_command("doctor", **at).returncode == 0


def test_a_missing_file_is_reported_in_one_sentence(lone_command: Command, tmp_path):
    assert lone_command("store", "import", str(tmp_path)).stderr == f"hub: There is no file {tmp_path}.\n"
    missing = tmp_path / "no" / "copy"
    assert lone_command("store", "export", str(missing)).stderr == f"hub: {missing.parent} is no folder.\n"


# What a file may have instead of a part of a key, however right its digest is.
HOSTILE = (
    "[]", "nothing", "1" * 5000, "[" * 100_000, "{}", '{"key": "a"}', '{"key": 1, "type": "string", "value": "x"}',
    '{"key": "a", "type": "string", "value": 1}', '{"key": "a", "type": "string", "value": "\\ud800"}',
    '{"key": "\\ud800", "type": "string", "value": "x"}', '{"key": "a", "type": "module", "value": "x"}',
    '{"key": "a", "type": ["string"], "value": "x"}', '{"key": "a", "type": "list", "value": []}',
    '{"key": "a", "type": "list", "value": "x"}', '{"key": "a", "type": "set", "value": [["x"]]}',
    '{"key": "a", "type": "hash", "value": [["x"]]}', '{"key": "a", "type": "hash", "value": [["x", 1]]}',
    '{"key": "a", "type": "zset", "value": [["x", "1"]]}', '{"key": "a", "type": "zset", "value": [["x", NaN]]}',
    '{"key": "a", "type": "zset", "value": [["x", ' + "9" * 400 + "]]}",
    '{"key": "a", "type": "zset", "value": [["x", true]]}', '{"key": "a", "type": "stream", "value": [["x", []]]}',
    '{"key": "a", "type": "stream", "value": [["1-1", ["f"]]]}',
    '{"key": "a", "type": "stream", "value": [["*", ["f", "v"]]]}',
    '{"key": "a", "type": "string", "value": "x", "ends": 1e400}',
    '{"key": "a", "type": "string", "value": "x", "ends": 9223372036854775808}',
    '{"key": "a", "type": "string", "value": "x", "ends": -1}',
    '{"key": "a", "type": "string", "value": "x", "more": 1}',
    '{"key": "a", "type": "string", "value": "x", "then": 1}',
)  # fmt: skip
# Right in itself, and refused by the server.
REFUSED = (
    '{"key": "a", "type": "string", "value": "x"}\n{"key": "a", "type": "list", "value": ["x"], "more": true}',
    '{"key": "a", "type": "stream", "value": [["0-0", ["f", "v"]]]}',
    '{"key": "a", "type": "stream", "value": [["2-1", ["f", "v"]], ["1-1", ["f", "v"]]]}',
    '{"key": "a", "type": "stream", "value": [["99999999999999999999-1", ["f", "v"]]]}',
)


def whole(file: Path, lines: str) -> None:
    """Write a copy of these lines, with the end that they need."""
    text = f'{{"kind":"capacity-hub-store","version":1,"at":0}}\n{lines}\n'
    end = {"lines": text.count("\n"), "sha256": hashlib.sha256(text.encode()).hexdigest()}
    file.write_text(f"{text}{json.dumps(end)}\n")


def test_a_forged_copy_is_refused_before_anything_is_written(
    lone_command: Command, redis_server: RedisServer, tmp_path: Path
):
    file, at = tmp_path / "copy", {"HUB_REDIS_URL": redis_server.url}
    redis_server.client().flushall()
    good = '{"key": "good", "type": "string", "value": "x"}'
    for line in HOSTILE:
        whole(file, f"{good}\n{line}\n{good}")
        done = lone_command("store", "import", str(file), **at)
        refusal = f"hub: {file} has something else than a part of a key in line 3.\n"
        assert (line[:99], done.returncode, done.stderr) == (line[:99], 1, refusal)
        assert redis_server.client().dbsize() == 0
    for lines in REFUSED:
        whole(file, lines)
        done = lone_command("store", "import", str(file), **at)
        assert (lines, done.returncode, done.stderr.count("\n")) == (lines, 1, 1)
        assert "is refused by Redis" in done.stderr
        redis_server.client().flushall()


def test_an_endless_file_is_refused_as_a_copy(lone_command: Command, redis_server: RedisServer, tmp_path: Path):
    """A device, a pipe that no program writes to, and a file of nothing that is larger than all memory."""
    (large := tmp_path / "large").touch()
    os.truncate(large, 1 << 40)
    os.mkfifo(fifo := tmp_path / "fifo")
    at = {"HUB_REDIS_URL": redis_server.url}
    for path in ("/dev/zero", fifo):
        assert lone_command("store", "import", str(path), **at).stderr == f"hub: There is no file {path}.\n"
    assert "is no copy of a store" in lone_command("store", "import", str(large), **at).stderr
    whole(large, "")
    large.write_text(large.read_text().splitlines()[0] + "\n")
    os.truncate(large, 1 << 40)
    before = "from hub.store import backup; backup.LONGEST = 1 << 20"
    running = lone_command.start("store", "import", str(large), before=before, **at)
    assert (running.end(), running.err) == (1, f"hub: {large} has something else than a part of a key in line 2.\n")


def test_store_version_shows_the_format_and_the_loaded_libraries(
    own_hub, own_command: Command, redis_server: RedisServer
):
    at = {"HUB_REDIS_URL": redis_server.url}
    later = library().replaced("-- Whether nodes are alive.", "-- Whether nodes live.")
    assert later.name != library().name
    redis_server.client().function_flush()  # what earlier tests on this server have left
    redis_server.client().function_load(later.text)
    lines = own_command("store", "version", **at).stdout.splitlines()
    assert lines[:2] == [
        f"{redis_server.url} has format {FORMAT}; this hub reads formats up to {FORMAT} and writes {FORMAT}.",
        f"The functions of this hub are {library().name}.",
    ]
    assert lines[2].startswith(f"Those of another version are {later.name}, last used ")
    found = json.loads(own_command("store", "version", "--json", **at).stdout)
    assert (found["format"], found["writes"], found["library"]) == (FORMAT, FORMAT, library().name)
    assert [each["name"] for each in found["otherLibraries"]] == [later.name]
