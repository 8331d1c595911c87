"""How large a body may be: in bytes, by the bound that its operation has."""

from __future__ import annotations

from typing import Final

from hub.api.operations import Bound, Found
from hub.settings import Settings

BATCH_BYTES = 1024 * 1024  # payloads of one call that submits many, at least
ERRORS_BYTES = 16 * 1024 * 1024  # errors of tasks in one body: each may be a long text, of which the beginning is kept
REPORTS_BYTES = 1024 * 1024  # what workers report together, at least
SLACK_BYTES = 64 * 1024  # for what stands around a payload or a schema, and for blanks
_LOGS: Final = ("/commands", "/api-logs")  # in paths that nodes of the original call, and that the hub does not have


def report_bytes(settings: Settings) -> int:
    """Return what the reports in one body may have once their errors are cut."""
    return max(settings.task_payload_max_bytes, settings.task_result_max_bytes, REPORTS_BYTES) + SLACK_BYTES


class Bounds:
    """Bounds in bytes. A body may be larger than the payload in it: that one is measured when it has been read."""

    def __init__(self, settings: Settings) -> None:
        control, reports = settings.max_control_body_bytes, report_bytes(settings)
        self._log = settings.max_log_body_bytes
        self._bytes: dict[Bound, int] = {
            "control": control,
            "schema": max(control, settings.schema_max_bytes + SLACK_BYTES),
            "schedule": max(control, settings.task_payload_max_bytes + SLACK_BYTES),
            "submit": max(settings.task_payload_max_bytes, BATCH_BYTES) + SLACK_BYTES,
            "reports": reports,
            "report": max(reports, ERRORS_BYTES + SLACK_BYTES),
            "result": settings.provider_result_max_bytes,
        }

    def of(self, found: Found, path: str) -> int:
        """Return the bound of a request by its row."""
        if found.row is None:
            return self._log if any(name in path for name in _LOGS) else self._bytes["control"]
        return self._bytes[found.row.facts.bound]
