"""`.env.example` against the settings."""

import itertools
import re
from pathlib import Path

import hub.client
from hub.settings import Settings, load_settings, read_environment
from hub.settings.model import knobs
from hub.settings.sources import CLIENT_NAMES

EXAMPLE = Path(__file__).parent.parent / ".env.example"


def test_the_example_lists_every_setting_in_order_with_its_default_and_what_it_costs():
    lines = EXAMPLE.read_text().splitlines()
    listed = [(before, line) for before, line in itertools.pairwise(lines) if re.match(r"#?[A-Z_]+=", line)]
    shown = Settings().masked() | {"HUB_DATA_DIR": "~/.local/state/capacity-hub"}
    assert listed == [
        (f"# {Settings.model_fields[field].description}", f"#{knob.name}={shown[knob.name]}")
        for field, knob in knobs().items()
    ] + [(f"# {about}", f"#{name}=") for name, about in CLIENT_NAMES.items()]


def test_the_uncommented_example_is_read_without_a_note(tmp_path):
    text = re.sub(r"(?m)^#([A-Z_]+=)", r"\1", EXAMPLE.read_text())
    (tmp_path / ".env").write_text(text)
    settings = load_settings(read_environment({}, tmp_path))
    assert settings.notes == []
    assert settings.model_copy(update={"data_dir": Settings().data_dir}) == Settings()


def test_the_example_names_every_variable_that_clients_read():
    # Those of slot_variables.py are set for the programs of others, and read by no client.
    sources = [each for each in Path(hub.client.__file__).parent.rglob("*.py") if each.name != "slot_variables.py"]
    read = {name for source in sources for name in re.findall(r'"(HUB_[A-Z_]+)"', source.read_text())}
    assert {"HUB_URL", "HUB_TOKEN", "HUB_NODE_ID"} <= read
    assert read <= {line.strip("#").partition("=")[0] for line in EXAMPLE.read_text().splitlines()}
