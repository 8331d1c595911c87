"""Settings that hold secrets: none is accepted that has no secret in it, and none is shown."""

import pytest

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


def test_what_differs_from_its_default_is_told_at_the_start_and_nothing_else():
    assert load_settings({}).changed() == {}
    settings = load_settings({"HUB_NODE_TIMEOUT": "90", "HUB_LOG_FORMAT": "text", "HUB_NODE_SECRET": "s3cr3t"})
    assert settings.changed() == {"HUB_NODE_TIMEOUT": "90", "HUB_NODE_SECRET": "***"}
