"""Settings that hold secrets: none is accepted that has no secret in it, and none is shown."""

import json

import pytest

from hub.errors import StartRefused
from hub.recovery.engines import make_engine
from hub.recovery.file import read_sources
from hub.recovery.webhook import webhook_url
from hub.settings import BadSetting, load_settings
from hub.settings.model import knobs


@pytest.mark.parametrize("text", [",", " , ,, ", ";", ",;", "\u200b", ",\u00a0,", "\x00"])
@pytest.mark.parametrize("name", [knob.name for knob in knobs().values() if knob.name.endswith("_SECRET")])
def test_a_secret_of_separators_alone_stops_the_start(name, text):
    with pytest.raises(BadSetting) as refused:
        load_settings({name: text, "HUB_HOST": "0.0.0.0"})
    assert str(refused.value).startswith(f"{name}=*** has no secret in it: ")


@pytest.mark.parametrize("text", ["first,second", ",first", "first,", "a b"])
def test_a_list_with_a_secret_in_it_is_read_as_written(text):
    found = load_settings({"HUB_RUNNER_SECRET": text}).runner_secret
    assert found is not None
    assert found.get_secret_value() == text


def test_the_start_line_shows_only_settings_that_differ_from_their_defaults():
    assert load_settings({}).changed() == {}
    settings = load_settings({"HUB_NODE_TIMEOUT": "90", "HUB_LOG_FORMAT": "text", "HUB_NODE_SECRET": "s3cr3t"})
    assert settings.changed() == {"HUB_NODE_TIMEOUT": "90", "HUB_NODE_SECRET": "***"}


HOPELESS = [",", " , ,", ";", "\u200b", "://", "-", "http://", "http://,", "redis://;", "a b", "ftp://x", "http://x:0"]
ADDRESSES = ["HUB_REDIS_URL", "HUB_ZOMBIE_WEBHOOK_URL", "DASHBOARD_URL", "HUB_PUBLIC_URL", "HUB_OIDC_ISSUER"]


@pytest.mark.parametrize("text", HOPELESS)
@pytest.mark.parametrize("name", ADDRESSES)
def test_an_address_that_names_no_server_stops_the_start_in_one_sentence(name, text):
    with pytest.raises((BadSetting, StartRefused)) as refused:
        webhook_url(load_settings({name: text}))
    said = str(refused.value)
    assert (said.startswith(name), said.count("\n"), said[-1]) == (True, 0, "."), said


def test_every_setting_that_holds_an_address_or_a_secret_is_in_a_table_of_these_tests():
    names = {knob.name for knob in knobs().values()}
    held = {name for name in names if name.endswith(("_URL", "_URI", "_SECRET", "_ENDPOINT", "_TOKEN", "_ISSUER"))}
    secrets = {"HUB_RUNNER_SECRET", "HUB_NODE_SECRET", "HUB_ADMIN_SECRET", "HUB_OIDC_CLIENT_SECRET"}
    assert held == {*ADDRESSES, *secrets}


@pytest.mark.parametrize("text", ["/grafana", "https://grafana.example/d/hub?orgId=1", "http://[::1]:3000/"])
def test_a_valid_dashboard_address_is_used_as_written(text):
    assert load_settings({"DASHBOARD_URL": text}).dashboard_url == text


@pytest.mark.parametrize("text", ["//evil.example", "/\\evil.example"])
def test_a_dashboard_path_that_browsers_read_as_another_host_is_refused(text):
    with pytest.raises(BadSetting):
        load_settings({"DASHBOARD_URL": text})


@pytest.mark.parametrize("text", [*HOPELESS, "", "sqlite://", "postgresql://,/orders", "mysql+asyncmy://;/x"])
async def test_an_invalid_database_number_is_refused_in_one_sentence(tmp_path, text):
    file = tmp_path / "recovery.toml"
    lines = ["[[sources]]", 'name = "orders"', f"url = {json.dumps(text)}", 'table = "orders"', 'stuck = "Processing"']
    file.write_text("\n".join([*lines, 'becomes = "Pending"']))
    with pytest.raises(StartRefused) as refused:
        [make_engine(source) for source in read_sources(file)]
    said = str(refused.value)
    assert (said.startswith(f"{file}, source orders, url: "), said.count("\n"), said[-1]) == (True, 0, "."), said
