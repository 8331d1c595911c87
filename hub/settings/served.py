"""The realms that a hub serves, and the settings for each of them."""

from __future__ import annotations

from hub.errors import StartRefused
from hub.settings.model import Settings
from hub.settings.realms import DEFAULT, Realm, read_realms


def settings_of(realm: Realm, settings: Settings) -> Settings:
    """Return the settings of the hub for one realm.

    Only the default realm has the recovery of stuck records and `@internal` jobs.
    """
    own = {"realm": realm.name, "redis_url": realm.url, "key_prefix": realm.prefix, "internal_jobs": ""}
    return settings.model_copy(update={**own, "recovery_file": None, "recovery_sources": ""})


def serves(settings: Settings, name: str) -> bool:
    """Return whether a hub is to serve the realm of this name; `default` is the realm without a name."""
    return not settings.realms or name in settings.realms


def read_known(settings: Settings) -> tuple[Realm, ...]:
    """Return the realms of `HUB_REALMS_FILE`, or none when that is not set.

    Raises `StartRefused` when the file is wrong, or lacks a realm that is to be served.
    """
    file = settings.realms_file
    found = read_realms(file, settings.key_prefix) if file else ()
    if unknown := set(settings.realms) - {DEFAULT, *(realm.name for realm in found)}:
        where = f"{file} has no such realm" if file else "HUB_REALMS_FILE does not say where they live"
        raise StartRefused(f"HUB_REALMS names {', '.join(sorted(unknown))}, and {where}.")
    return found
