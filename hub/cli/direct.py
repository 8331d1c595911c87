"""How a command works straight on Redis, where no hub answers or none is needed."""

from __future__ import annotations

import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from hub.cli import global_options, output
from hub.cli.environment import environment
from hub.cli.inputs import Usage
from hub.client.transport import AsyncTransport
from hub.errors import HubUnavailable
from hub.observability.logs import configure_logs
from hub.settings import Settings, load_settings, mask_url
from hub.settings.realms import DEFAULT, Realm
from hub.settings.served import read_known, serves, settings_of
from hub.store import keeper


@asynccontextmanager
async def in_process(url: str, secret: str) -> AsyncIterator[AsyncTransport]:
    """What calls go through as they would to the hub at this URL, where none listens."""
    settings = store_settings(f"No hub listens at {mask_url(url)}", "say where one is with --url or HUB_URL")
    from hub.api.app import create_app  # the server's packages cost half a second that the doctor need not wait

    output.note(f"no hub listens at {mask_url(url)}; working straight on Redis at {store_shown(settings)}.")
    app = create_app(settings, sweep=False)
    async with app.app.router.lifespan_context(app.app):
        inside = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        yield AsyncTransport("http://in-process", secret, "", inside)


def store_settings(why: str, or_say: str = "name its Redis in HUB_REDIS_URL") -> Settings:
    """The settings of a command that works straight on Redis, with quiet logs; refused when no Redis is running.

    `or_say` is what else may be done about that than starting a hub.
    """
    environment()  # says where they come from
    settings = _of_realm(load_settings())
    if settings.redis_url is None and not _embedded_runs(settings):
        raise HubUnavailable(
            f"{why}, HUB_REDIS_URL names no Redis, and no embedded one runs in {settings.data_dir}; start a hub with "
            f"`hub serve`, or {or_say}."
        )
    return _quiet(settings)


def every_realm() -> dict[str, Settings]:
    """The settings of such a command in each realm that `HUB_REALMS` and the file name, with quiet logs."""
    environment()
    settings = load_settings()
    found = {DEFAULT: settings} if serves(settings, DEFAULT) else {}
    found |= {realm.name: settings_of(realm, settings) for realm in read_known(settings) if realm.name != DEFAULT}
    return {name: _quiet(each) for name, each in found.items() if serves(settings, name)}


def realm_settings(realm: Realm) -> Settings:
    """The settings of a command that works straight on the Redis of a realm, with quiet logs."""
    return _quiet(settings_of(realm, load_settings()))


def _quiet(settings: Settings) -> Settings:
    if not os.environ.get("LOG_LEVEL"):
        settings = settings.model_copy(update={"log_level": "ERROR"})
    configure_logs(settings)
    return settings


def _of_realm(settings: Settings) -> Settings:
    """The settings of the realm that the command line names."""
    name = global_options.realm()
    if name is None or name == DEFAULT:
        return settings
    found = {realm.name: realm for realm in read_known(settings) if realm.name != DEFAULT}
    if name not in found:
        there = f"{settings.realms_file} has {', '.join([DEFAULT, *found])}" if found else "HUB_REALMS_FILE names none"
        raise Usage(f"There is no realm {output.one_line(name)}: {there}.")
    return settings_of(found[name], settings)


def store_shown(settings: Settings) -> str:
    """Where the store is, without its password."""
    return mask_url(settings.redis_url) if settings.redis_url else str(settings.data_dir)


def _embedded_runs(settings: Settings) -> bool:
    """Whether a server lives in the data directory: it holds this lock for as long as it does."""
    try:
        lock = os.open(settings.data_dir / keeper.SERVER_LOCK, os.O_RDWR)
    except OSError:
        return False
    try:
        return not keeper.try_lock(lock, fcntl.LOCK_SH)
    finally:
        os.close(lock)
