"""The endpoints for settings that all hubs must share: list them, and change one for all hubs at run time."""

from __future__ import annotations

from fastapi import APIRouter

from hub.api.inputs import Audit, Hub, Sent
from hub.api.operations import operation
from hub.api.shapes.answer import Answer
from hub.api.shapes.operator_bodies import SettingBody
from hub.api.shapes.operators import SharedSettingShape, SharedSettingsShape
from hub.capacity.agreed import SharedSetting
from hub.errors import BadInput, NotFound
from hub.tokens.secrets import ADMIN, RUNNER

router = APIRouter(tags=["admin"])


@router.get("/admin/settings", **operation("listSettings", (RUNNER, ADMIN)))
async def settings(hub: Hub) -> Answer[SharedSettingsShape]:
    """Return the settings that hold for all hubs, their source, and the hubs that were given another value."""
    return Answer(SharedSettingsShape(settings=[_row(each) for each in await hub.agreed.look()]))


@router.put("/admin/settings/{name}", **operation("setSetting", (ADMIN,), refusals=(BadInput, NotFound)))
async def set_setting(hub: Hub, name: str, body: Sent[SettingBody], audit: Audit) -> Answer[SharedSettingShape]:
    """Set a setting for all hubs, whatever value each was given; null clears the set value. Other hubs follow within a
    second."""
    by = audit.name(body.by)
    await hub.agreed.set(name, body.value, by)
    value = "cleared" if body.value is None else body.value.strip()[:200]
    await audit.write("admin", "setting.set", actor=by, setting=name, value=value)
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
