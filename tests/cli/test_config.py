"""`hub config show`: every setting, with its value, its default and where it came from."""

from __future__ import annotations

from pathlib import Path

from tests.cli.command import Command


def rows(text: str) -> dict[str, list[str]]:
    """The cells of each line by the name of its setting."""
    return {line.split()[0]: line.split()[1:] for line in text.splitlines()}


def test_config_shows_all_settings_of_the_hub_masked_with_default_and_source(own_command: Command, own_hub):
    done = own_command("config", "show")
    assert (done.returncode, done.stderr) == (0, "")
    shown = rows(done.stdout)
    assert shown["SETTING"] == ["VALUE", "DEFAULT", "SOURCE"]
    assert shown["HUB_NODE_TIMEOUT"] == ["600", "60", "environment"]
    assert shown["HUB_BORROW_WILDCARDS"] == ["false", "false", "default"]
    assert shown["HUB_ADMIN_SECRET"] == ["***", "-", "environment"]
    assert own_hub.admin_secret not in done.stdout
    listed = own_command.json("config", "show")["settings"]
    assert {row["name"] for row in listed} == shown.keys() - {"SETTING"}
    assert {row["name"]: row["source"] for row in listed}["HUB_NODE_TIMEOUT"] == "environment"


def test_without_a_hub_config_shows_the_settings_of_a_hub_started_here(lone_command: Command):
    done = lone_command("config", "show", HUB_NODE_TIMEOUT="77", HUB_RUNNER_SECRET="hush")
    assert done.returncode == 0
    assert done.stderr == (
        "hub: no hub listens at http://127.0.0.1:9; these are the settings of a hub that is started here.\n"
    )
    shown = rows(done.stdout)
    assert shown["HUB_NODE_TIMEOUT"] == ["77", "60", "environment"]
    assert shown["HUB_RUNNER_SECRET"] == ["***", "-", "environment"]
    assert "hush" not in done.stdout
    named = lone_command("config", "show", "--url", "http://127.0.0.1:9")
    assert (named.returncode, named.stderr) == (1, "hub: No hub listens at http://127.0.0.1:9.\n")


def test_without_a_hub_config_shows_the_settings_of_the_named_realm(lone_command: Command, tmp_path: Path):
    file = tmp_path / "realms.toml"
    file.write_text('[[realms]]\nname = "eu"\nurl = "redis://:hush@eu.test/1"\n')
    done = lone_command("config", "show", "--realm", "eu", HUB_REALMS_FILE=str(file))
    assert done.returncode == 0, done.stderr
    assert rows(done.stdout)["HUB_REDIS_URL"] == ["redis://:***@eu.test/1", "-", "environment"]
    unknown = lone_command("config", "show", "--realm", "us", HUB_REALMS_FILE=str(file))
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert unknown.stderr == f"hub: There is no realm us: {file} has default, eu.\n"
