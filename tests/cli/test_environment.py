"""Where commands take settings from: `.env` files, proxies, secrets on the command line; and what they pass on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import Command, register
from tests.world import PATIENCE_S, clean_environment

TABLE = "import os, json; print(json.dumps(dict(os.environ)))"
AS_OTHER = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of somebody else")
NOBODY = 65_534
SEEN = "is visible to every user of this machine who lists its processes"


def told_by_file(command: Command, folder: Path, **more: str) -> Path:
    """A `.env` that names the hub and its secret, which nothing else does any more."""
    settings = {name: command.environment.pop(name) for name in ("HUB_URL", "HUB_RUNNER_SECRET")} | more
    for name in ("DISABLE_DOTENV", "HUB_ADMIN_SECRET", "HUB_NODE_SECRET"):
        command.environment.pop(name)
    file = folder / ".env"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    file.chmod(0o600)
    return file


def test_the_env_file_in_use_is_named_where_it_may_surprise_and_on_request(command: Command, tmp_path):
    file = told_by_file(command, tmp_path)
    below = tmp_path / "below"
    below.mkdir()
    note = f"hub: settings come from {file}.\n"
    assert command("nodes", cwd=tmp_path).stderr == ""
    assert command("nodes", "--verbose", cwd=tmp_path).stderr == note
    assert command("--verbose", "nodes", cwd=tmp_path).stderr == note
    assert command("nodes", cwd=below).stderr == note


@AS_OTHER
@pytest.mark.parametrize("how", ["owner", "everybody", "group", "link", "link of others", "folder of links"])
def test_an_env_file_that_others_own_or_can_write_sets_no_secret_or_address(
    command: Command, shared_hub, tmp_path, how
):
    file = told_by_file(command, tmp_path)
    match how:
        case "owner":
            os.chown(file, NOBODY, -1)
        case "everybody":
            file.chmod(0o606)
        case "group":
            os.chown(file, -1, NOBODY)
            file.chmod(0o660)
        case "link":
            os.chown(file, NOBODY, -1)
            file.rename(tmp_path / "theirs")
            file.symlink_to(tmp_path / "theirs")
        case "link of others":
            file.rename(tmp_path / "mine")
            file.symlink_to(tmp_path / "mine")
            os.chown(file, NOBODY, -1, follow_symlinks=False)
        case "folder of links":
            file.rename(tmp_path / "mine")
            (tmp_path / "between").symlink_to(tmp_path / "mine")
            os.chown(tmp_path / "between", NOBODY, -1, follow_symlinks=False)
            file.symlink_to("between")
    (tmp_path / "below").mkdir()
    done = command("nodes", cwd=tmp_path / "below", HUB_URL=shared_hub.url)
    assert done.returncode == 1
    assert "The hub refuses a call without a secret" in done.stderr
    assert f"hub: {file} is not read: " in done.stderr
    assert "settings come from" not in done.stderr


@AS_OTHER
def test_an_env_file_of_the_same_user_in_a_parent_folder_or_behind_a_link_counts(command: Command, tmp_path):
    file = told_by_file(command, tmp_path)
    file.rename(tmp_path / "kept")
    file.symlink_to("kept")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / ".env").write_text("HUB_URL=http://127.0.0.1:9\n")
    os.chown(inner / ".env", NOBODY, -1)
    done = command("nodes", cwd=inner)
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        f"hub: {inner / '.env'} is not read: it belongs to nobody, and only files of this user or root are believed.",
        f"hub: settings come from {file}.",
    ]


def started(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command started in a folder, with `.env` files allowed."""
    return subprocess.run(
        [sys.executable, "-m", "hub.cli", *words],
        cwd=folder, env={**clean_environment(), **environment}, capture_output=True, text=True,
        timeout=2 * PATIENCE_S, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.mark.parametrize("setting", ["HUB_INTERNAL_JOBS", "HUB_RECOVERY_SOURCES"])
def test_an_env_file_cannot_make_the_hub_run_a_module_of_the_working_directory(tmp_path, redis_server, setting):
    (tmp_path / "planted.py").write_text("print('it ran', flush=True)\ninternal_jobs, sources = {}, []\n")
    (tmp_path / ".env").write_text(f"{setting}=planted\nHUB_PORT=0\nHUB_REDIS_URL={redis_server.url}\n")
    (tmp_path / ".env").chmod(0o600)
    done = started(tmp_path, "serve")
    assert (done.returncode, "it ran" in done.stdout) == (1, False)
    assert f"has to be installed, or {setting} set in the environment" in done.stderr
    assert f"env_file={tmp_path / '.env'}" in done.stderr
    by_hand = started(tmp_path, "internal-worker", HUB_INTERNAL_JOBS="planted")
    assert "it ran" in by_hand.stdout  # what was typed is believed


def test_no_proxy_is_used_for_a_hub_on_this_machine(command: Command, shared_hub):
    nowhere = dict.fromkeys(("http_proxy", "HTTP_PROXY", "ALL_PROXY"), "http://me:s3cret@127.0.0.1:9")
    for url in (shared_hub.url, shared_hub.url.replace("127.0.0.1", "localhost")):
        done = command("nodes", "--url", url, **nowhere)
        assert (done.returncode, done.stderr) == (0, "")
        loud = command("nodes", "--url", url, "--verbose", **nowhere)
        assert loud.stderr == f"hub: the proxy http://me:***@127.0.0.1:9 is not used: {url} is on this machine.\n"
    assert command("nodes", "--verbose").stderr == ""


def test_a_secret_may_come_from_a_file_or_stdin_and_one_on_the_command_line_is_warned_about(
    command: Command, shared_hub
):
    secret = command.environment["HUB_RUNNER_SECRET"]
    for name in ("HUB_RUNNER_SECRET", "HUB_ADMIN_SECRET", "HUB_NODE_SECRET"):
        command.environment.pop(name)
    in_file = command("pools", "--secret", command.kept(secret))
    assert (in_file.returncode, in_file.stderr) == (0, "")
    piped = subprocess.run(
        [sys.executable, "-m", "hub.cli", "pools", "--secret", "-"],
        env=command.environment, input=f"{secret}\n", capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (piped.returncode, piped.stderr) == (0, "")
    on_the_line = command("pools", "--secret", secret)
    assert (on_the_line.returncode, on_the_line.stderr.count("\n")) == (0, 1)
    assert SEEN in on_the_line.stderr
    token = command("jobs", "--token", "s3cret")
    assert SEEN in token.stderr
    assert "s3cret" not in token.stderr


@pytest.mark.parametrize(
    ("secret", "why"),
    [("@/no/such", "/no/such cannot be read: No such file"), ("@{}", "there is nothing in"), ("-", "nothing in stdin")],
)
def test_a_secret_file_that_is_missing_is_wrong_usage(command: Command, tmp_path, secret, why):
    (tmp_path / "empty").write_text("\n")
    done = command("pools", "--secret", secret.format(tmp_path / "empty"))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert why in done.stderr


def test_the_command_of_a_borrow_gets_the_slot_and_no_secret_in_its_environment(own_command: Command, own_hub):
    register(own_hub, "n1", slots=[{"labelKey": "gpu:a100", "slotId": "s1"}])
    own_command.environment |= {"HUB_SECRET": "x", "HUB_OTHER_SECRET": "x", "MY_SECRET": "mine", "HUB_TOKEN": "t"}
    done = own_command("borrow", "gpu:a100", "--run", "r1", "--", sys.executable, "-c", TABLE)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert [name for name in seen if name.startswith("HUB_") and "SECRET" in name] == []
    assert (seen["HUB_SLOT_ID"], seen["HUB_RUN_ID"], seen["HUB_URL"], seen["MY_SECRET"], seen["HUB_TOKEN"]) == (
        "s1", "r1", own_hub.url, "mine", "t",
    )  # fmt: skip
    assert seen["HUB_LEASE_TOKEN"]
