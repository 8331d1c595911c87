"""The largest size of a request's body, in bytes, by the kind of bound that its operation has."""

from __future__ import annotations

from typing import Final

from hub.api.operations import Bound, Found
from hub.settings import Settings

BATCH_BYTES = 1024 * 1024  # for the payloads of one call that submits many tasks; more where one payload may be larger
LEASES_BYTES = 1024 * 1024  # for 1,000 watched leases: slot, token, and why the slot is unwell as the caller has heard
ERRORS_BYTES = 16 * 1024 * 1024  # for the error texts of tasks in one body; the hub keeps the beginning of each
REPORTS_BYTES = 1024 * 1024  # for the reports of a worker in one body; more where one payload or result may be larger
SLACK_BYTES = 64 * 1024  # for the JSON around a payload or a schema, and for white space
_LOGS: Final = ("/commands", "/api-logs")  # parts of paths that nodes of the original call; this hub has no such route


def report_bytes(settings: Settings) -> int:
    """Return how many bytes the reports of one body may have after their error texts are cut to the length that is
    kept."""
    return max(settings.task_payload_max_bytes, settings.task_result_max_bytes, REPORTS_BYTES) + SLACK_BYTES


class Bounds:
    """The bounds of bodies, in bytes. A body may be larger than the payload in it; the payload is measured after the
    body has been read."""

    def __init__(self, settings: Settings) -> None:
        control, reports = settings.max_control_body_bytes, report_bytes(settings)
        self._log = settings.max_log_body_bytes
        self._bytes: dict[Bound, int] = {
            "control": control,
            "leases": max(control, LEASES_BYTES),
            "schema": max(control, settings.schema_max_bytes + SLACK_BYTES),
            "schedule": max(control, settings.task_payload_max_bytes + SLACK_BYTES),
            "submit": max(settings.task_payload_max_bytes, BATCH_BYTES) + SLACK_BYTES,
            "reports": reports,
            "report": max(reports, ERRORS_BYTES + SLACK_BYTES),
            "result": settings.provider_result_max_bytes,
        }

    def of(self, found: Found, path: str) -> int:
        """Return the bound, in bytes, for the body of a request to this path. The row of its operation has the kind of
        bound; a path without a row has the bound of logs or of control calls."""
        if found.row is None:
            return self._log if any(name in path for name in _LOGS) else self._bytes["control"]
        return self._bytes[found.row.facts.bound]
