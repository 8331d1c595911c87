"""The settings that share the memory of Redis out."""

from __future__ import annotations

from typing import Annotated

from pydantic_settings import BaseSettings, SettingsConfigDict

from hub.settings.knobs import Knob, read_integer


class QuotaSettings(BaseSettings):
    """How much of the memory of Redis is kept for nodes, leases and ends."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    store_reserve_percent: Annotated[int, Knob("HUB_STORE_RESERVE_PERCENT", read_integer, 0, 50)] = 10
    """Kept of Redis' maxmemory for nodes, leases and ends; 0: none. Too low: a flood stops beats; too high: it idles."""
