"""The settings that divide the memory and the time of Redis: the reserve, and the most that there may be of a kind."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic_settings import BaseSettings, SettingsConfigDict

from hub.settings.knobs import count

_MIB: Final = 1024 * 1024
_MANY: Final = 10**12


class QuotaSettings(BaseSettings):
    """The share of Redis' memory that is kept for nodes, leases and task ends, and the limits of users and rooms."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    store_reserve_percent: Annotated[int, count("HUB_STORE_RESERVE_PERCENT", 0, 50)] = 10
    """Kept of Redis' maxmemory for nodes, leases and ends; 0: none. Too low: a flood stops beats; too high: wasted."""
    user_tasks_max_bytes: Annotated[int, count("HUB_USER_TASKS_MAX_BYTES", 65_536, _MANY)] = 1024 * _MIB
    """Open tasks, schedules per user, each with 512 bytes; a room: four times. Too low: 409; too high: a full Redis."""
    user_schemas_max_bytes: Annotated[int, count("HUB_USER_SCHEMAS_MAX_BYTES", 65_536, _MANY)] = 64 * _MIB
    """Schemas per user, each with 512 bytes; a room: four times. Too low: workers get 409; too high: a full Redis."""
    user_schedules_max: Annotated[int, count("HUB_USER_SCHEDULES_MAX", 1, 10_000)] = 1_000
    """Schedules per user; a room: four times. Too low: 409; too high: one user leaves none of the 10,000 to others."""
    user_providers_max: Annotated[int, count("HUB_USER_PROVIDERS_MAX", 1, _MANY)] = 1_000
    """Providers per user; a room: four times. Too low: workers get 409; too high: one user fills every list."""
    user_rooms_max: Annotated[int, count("HUB_USER_ROOMS_MAX", 1, _MANY)] = 10_000
    """Rooms a user has opened that hold something. Too low: 409 in new rooms; too high: about 1 kB of memory each."""
    user_keys_max: Annotated[int, count("HUB_USER_KEYS_MAX", 10, _MANY)] = 1_000_000
    """Idempotency-Keys of a user's submits in a day. Too low: 409; too high: about 200 bytes of memory each."""
    user_reads_max: Annotated[int, count("HUB_USER_READS_MAX", 10, _MANY)] = 100_000
    """Questions of a user to providers in an hour. Too low: 409 for readers; too high: 500 bytes of memory each."""
    classes_max: Annotated[int, count("HUB_CLASSES_MAX", 1, 256)] = 64
    """Sets of attributes that slots may have. Too low: `where` misses some slots; too high: a waiter costs more."""

    @property
    def limits(self) -> str:
        """Return the limits as the text that `lua/allowances.lua` reads: `reserve=10 tasks=...`."""
        named = {
            "reserve": self.store_reserve_percent, "tasks": self.user_tasks_max_bytes,
            "schemas": self.user_schemas_max_bytes, "schedules": self.user_schedules_max,
            "providers": self.user_providers_max, "rooms": self.user_rooms_max, "keys": self.user_keys_max,
            "reads": self.user_reads_max,
        }  # fmt: skip
        return " ".join(f"{name}={number}" for name, number in named.items())
