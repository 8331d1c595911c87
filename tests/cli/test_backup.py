"""`hub store export`, `hub store import` and `hub store version`."""

from __future__ import annotations

import json

from hub.store.formats import newest
from hub.store.library import library
from tests.cli.command import Command
from tests.world import RedisServer, wait_until


def test_a_copy_is_written_and_read_once_the_hubs_have_stopped(
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


def test_what_is_no_file_is_said_in_one_sentence(lone_command: Command, tmp_path):
    assert lone_command("store", "import", str(tmp_path)).stderr == f"hub: There is no file {tmp_path}.\n"
    missing = tmp_path / "no" / "copy"
    assert lone_command("store", "export", str(missing)).stderr == f"hub: {missing.parent} is no folder.\n"


def test_the_version_of_a_store_is_its_format_and_whose_functions_are_there(
    own_hub, own_command: Command, redis_server: RedisServer
):
    at = {"HUB_REDIS_URL": redis_server.url}
    later = library().replaced("-- Whether nodes are alive.", "-- Whether nodes live.")
    assert later.name != library().name
    redis_server.client().function_flush()  # what earlier tests on this server have left
    redis_server.client().function_load(later.text)
    said = own_command("store", "version", **at).stdout.splitlines()
    assert said[:2] == [
        f"{redis_server.url} has format {newest()}; this hub reads formats up to {newest()} and writes {newest()}.",
        f"The functions of this hub are {library().name}.",
    ]
    assert said[2].startswith(f"Those of another version are {later.name}, last used ")
    found = json.loads(own_command("store", "version", "--json", **at).stdout)
    assert (found["format"], found["writes"], found["library"]) == (newest(), newest(), library().name)
    assert [each["name"] for each in found["otherLibraries"]] == [later.name]
