"""The endpoints for settings that all hubs must share: list them, and change one for all hubs at run time."""

from __future__ import annotations

from fastapi import APIRouter, Request

from hub.api.callers.credentials import origin
from hub.api.handling.context import remote_ip
from hub.api.inputs import hub_of
from hub.api.operations import operation
from hub.api.shapes import reading as bodies
from hub.api.shapes.answer import Answer
from hub.api.shapes.operator_bodies import SettingBody
from hub.api.shapes.operators import SharedSettingShape, SharedSettingsShape
from hub.capacity.agreed import SharedSetting
from hub.errors import BadInput, NotFound
from hub.tokens.secrets import ADMIN, RUNNER

router = APIRouter(tags=["admin"])


@router.get("/admin/settings", **operation("listSettings", (RUNNER, ADMIN)))
async def settings(request: Request) -> Answer[SharedSettingsShape]:
    """Return the settings that hold for all hubs, their source, and the hubs that were given another value."""
    hub = hub_of(request)
    return Answer(SharedSettingsShape(settings=[_row(each) for each in await hub.agreed.look()]))


@router.put(
    "/admin/settings/{name}",
    **operation("setSetting", (ADMIN,), body=SettingBody, refusals=(BadInput, NotFound)),
)
async def set_setting(request: Request, name: str) -> Answer[SharedSettingShape]:
    """Set a setting for all hubs, whatever value each was given; null clears the set value. Other hubs follow within a
    second."""
    hub = hub_of(request)
    said = SettingBody.read(await bodies.read_body(request))
    by = (said.by or remote_ip(request) or "unknown")[:100]
    await hub.agreed.set(name, said.value, by)
    value = "cleared" if said.value is None else said.value.strip()[:200]
    await hub.audit.write("admin", "setting.set", actor=by, **await origin(request), setting=name, value=value)
    return Answer(next(_row(each) for each in await hub.agreed.look() if each.name == name))


def _row(found: SharedSetting) -> SharedSettingShape:
    return SharedSettingShape(
        name=found.name,
        value=found.value,
        agreed=found.agreed,
        setBy=found.by,
        setAtUtc=found.at,
        otherwise=found.otherwise,
    )
