"""The store for commands that work straight on Redis, because no hub answers or none is needed."""

from __future__ import annotations

import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from hub.cli import global_options, output
from hub.cli.environment import environment
from hub.cli.inputs import Usage
from hub.client.transport import AsyncTransport, Secret
from hub.errors import HubUnavailable
from hub.observability.logs import configure_logs
from hub.settings import Settings, load_settings, mask_url
from hub.settings.realms import DEFAULT, Realm
from hub.settings.served import read_known, serves, settings_of
from hub.store import keeper


@asynccontextmanager
async def in_process(url: str, secret: str) -> AsyncIterator[AsyncTransport]:
    """Yield a transport to a hub inside this process, because none listens at this URL; prints a note on that."""
    settings = store_settings(f"No hub listens at {mask_url(url)}", "say where one is with --url or HUB_URL")
    output.note(f"no hub listens at {mask_url(url)}; working straight on Redis at {store_shown(settings)}.")
    async with within_process(settings, secret) as transport:
        yield transport


@asynccontextmanager
async def within_process(settings: Settings, secret: str) -> AsyncIterator[AsyncTransport]:
    """Run a hub with these settings inside this process while the block runs, and yield a transport to it."""
    from hub.api.app import create_app  # imported here: the server's packages cost half a second

    app = create_app(settings, sweep=False)
    async with app.app.router.lifespan_context(app.app):
        served = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        transport = AsyncTransport("http://in-process", Secret(secret), served)
        try:
            yield transport
        finally:
            await transport.close()


def local_settings() -> Settings:
    """Return the settings of a hub that is started here, for the realm that the command line names; raises `Usage`."""
    environment()  # for its note on the `.env` file
    settings, name = load_settings(), global_options.realm()
    if name is None or name == DEFAULT:
        return settings
    realms = _realms(settings)
    if name not in realms:
        there = f"{settings.realms_file} has {', '.join([DEFAULT, *realms])}"
        raise Usage(f"There is no realm {output.one_line(name)}: {there if realms else 'HUB_REALMS_FILE names none'}.")
    return settings_of(realms[name], settings)


def _realms(settings: Settings) -> dict[str, Realm]:
    return {realm.name: realm for realm in read_known(settings) if realm.name != DEFAULT}


def store_settings(why: str, or_say: str = "name its Redis in HUB_REDIS_URL") -> Settings:
    """Return the settings for a command that works straight on Redis; raises `HubUnavailable` when no Redis runs.

    The refusal begins with `why`, and advises to start a hub or else `or_say`. Only errors are logged.
    """
    settings = local_settings()
    if settings.redis_url is None and not _embedded_runs(settings):
        raise HubUnavailable(
            f"{why}, HUB_REDIS_URL names no Redis, and no embedded one runs in {settings.data_dir}; start a hub with "
            f"`hub serve`, or {or_say}."
        )
    return quiet(settings)


def every_realm() -> dict[str, Settings]:
    """Return realm -> settings for a command that works straight on Redis, for each realm that this hub serves."""
    environment()
    settings = load_settings()
    by_name = {DEFAULT: settings, **{name: settings_of(realm, settings) for name, realm in _realms(settings).items()}}
    return {name: quiet(own) for name, own in by_name.items() if serves(settings, name)}


def realm_settings(realm: Realm) -> Settings:
    """Return the settings for a command that works straight on the Redis of a realm."""
    return quiet(settings_of(realm, load_settings()))


def quiet(settings: Settings) -> Settings:
    """Return the settings for a command that people run: only errors are logged, unless LOG_LEVEL says otherwise."""
    if not os.environ.get("LOG_LEVEL"):
        settings = settings.model_copy(update={"log_level": "ERROR"})
    configure_logs(settings)
    return settings


def store_shown(settings: Settings) -> str:
    """Return the URL of the store without its password, or the data directory of the embedded Redis."""
    return mask_url(settings.redis_url) if settings.redis_url else str(settings.data_dir)


def _embedded_runs(settings: Settings) -> bool:
    """Return whether an embedded Redis runs in the data directory, which holds a lock there while it runs."""
    try:
        lock = os.open(settings.data_dir / keeper.SERVER_LOCK, os.O_RDWR)
    except OSError:
        return False
    try:
        return not keeper.try_lock(lock, fcntl.LOCK_SH)
    finally:
        os.close(lock)
