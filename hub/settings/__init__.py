"""Every knob of the hub, and how the environment and `.env` are read."""

from hub.settings.knobs import BadSetting, Knob, mask_url
from hub.settings.model import Settings, load_settings, own_variables
from hub.settings.sources import read_environment

__all__ = ["BadSetting", "Knob", "Settings", "load_settings", "mask_url", "own_variables", "read_environment"]
