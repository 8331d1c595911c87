"""How large the body of a request to the jobs API may be, by its path."""

from __future__ import annotations

from hub.api.paths import PREFIX
from hub.settings import Settings

BATCH_BYTES = 16 * 1024 * 1024  # payloads of one call that submits many
REPORTS_BYTES = 1024 * 1024  # what workers report together, at least
SLACK_BYTES = 64 * 1024  # for what stands around a payload or a schema, and for blanks


def report_bytes(settings: Settings) -> int:
    """What the reports in one body may have once their errors are cut."""
    return max(settings.task_payload_max_bytes, settings.task_result_max_bytes, REPORTS_BYTES) + SLACK_BYTES


class Limits:
    """Bounds in bytes. A body may be larger than the payload in it: that one is measured when it has been read."""

    def __init__(self, settings: Settings) -> None:
        self._plain = settings.max_control_body_bytes
        self._result = settings.provider_result_max_bytes
        self._progress = report_bytes(settings)
        # More than a report may have: the error of a task may be a long text, of which the beginning is kept.
        self._report = max(self._progress, BATCH_BYTES + SLACK_BYTES)
        self._submit = max(settings.task_payload_max_bytes, BATCH_BYTES) + SLACK_BYTES
        self._schedule = max(self._plain, settings.task_payload_max_bytes + SLACK_BYTES)
        self._schema = max(self._plain, settings.schema_max_bytes + SLACK_BYTES)

    def of(self, path: str) -> int:
        """The bound for a path below the prefix."""
        noun, _, rest = path[len(PREFIX) + 1 :].partition("/")
        if noun == "tasks":
            return self._progress if rest == "progress" or "/" in rest else self._report
        if noun == "providers":
            return self._result if rest.endswith("/results") else self._plain
        if noun == "rooms":
            what = rest.partition("/")[2].partition("/")[0]
            if what == "tasks":
                return self._submit
            if what == "schedules":
                return self._schedule
            if what in ("jobs", "providers"):
                return self._schema
        return self._plain
