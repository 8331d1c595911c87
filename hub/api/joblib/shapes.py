"""What the OpenAPI document says of the jobs API: the answers, and around them paths, queries and headers."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from starlette.responses import Response

from hub.api.joblib.requests import Status

_TEXT = {"type": "string"}
_ID = {"type": "string", "format": "uuid"}
_TIME = {"type": "string", "format": "date-time"}
_COUNT = {"type": "integer", "minimum": 0}
_OBJECT = {"type": "object"}
_IDS = {"type": "array", "items": _ID}
_STATUS = {"type": "string", "enum": list(Status.__args__)}  # type: ignore[attr-defined]


def _maybe(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


def _object(more: dict[str, Any] | None = None, /, **members: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": list(members), "properties": {**members, **(more or {})}}


TAKEN = _object(id=_ID, taken=_COUNT)
WORKER = _object(id=_ID, last_heartbeat=_TIME)
JOB = _object(
    id=_ID,
    room_id=_TEXT,
    category=_TEXT,
    name=_TEXT,
    full_name=_TEXT,
    schema=_OBJECT,
    workers=_IDS,
    worker_id=_maybe(_ID),
)
TASK = _object(
    {
        "attempt": _COUNT,
        "maxAttempts": _COUNT,
        "priority": {"type": "integer"},
        "notBefore": _TIME,
        "claim": _TEXT,
        "traceparent": _TEXT,
    },
    id=_ID,
    job_name=_TEXT,
    room_id=_TEXT,
    status=_STATUS,
    created_at=_TIME,
    started_at=_maybe(_TIME),
    completed_at=_maybe(_TIME),
    worker_id=_maybe(_ID),
    error=_maybe(_TEXT),
    payload=_OBJECT,
    queue_position=_maybe({"type": "integer", "minimum": 1}),
)
SHOWN = {
    **TASK,
    "properties": {
        **TASK["properties"],
        "result": {"description": "What a completed task came to, any JSON; not there when that is nothing."},
        "resultLost": {"type": "boolean", "description": "The store has lost the result, and no hub remembers it."},
        "maxSilenceSeconds": {"type": "number", "description": "How long it may say nothing while it runs."},
        "progress": _maybe({"type": "number", "minimum": 0, "maximum": 1}),
        "message": _maybe(_TEXT),
        "progress_at": {**_TIME, "description": "When it last said something of itself."},
        "log": {"type": "array", "items": _object(at=_TIME, text=_TEXT), "description": "The latest 100 it logged."},
    },
}
TASK_OR_IDS = {"anyOf": [TASK, _object(ids=_IDS)]}
_OUTCOME = _object(id=_ID, outcome={"type": "string", "enum": ["ok", "gone", "forbidden", "conflict", "too-large"]})
PROGRESSED = _object(tasks={"type": "array", "items": _OUTCOME})
CLAIMED = _object(
    {"tasks": {"type": "array", "items": TASK}, "results": {"type": "array", "items": _OUTCOME}}, task=_maybe(TASK)
)
PROVIDER = _object(
    id=_ID, room_id=_TEXT, category=_TEXT, name=_TEXT, full_name=_TEXT, schema=_OBJECT, worker_id=_ID, created_at=_TIME
)


def page(item: dict[str, Any]) -> dict[str, Any]:
    """A page of a list."""
    return _object(items={"type": "array", "items": item}, total=_COUNT, limit=_COUNT, offset=_COUNT)


WORKERS = page(_object(id=_ID, last_heartbeat=_TIME, job_count=_COUNT))
JOBS = page(_object(full_name=_TEXT, category=_TEXT, name=_TEXT, workers=_IDS))
TASKS = page(TASK)
PROVIDERS = page(PROVIDER)

_PROBLEM = _object({"detail": _TEXT}, type=_TEXT, title=_TEXT, status={"type": "integer"})
_DETAIL = _object(detail=_TEXT)
_WRONG = _object(
    detail={
        "type": "array",
        "items": _object(
            type=_TEXT, loc={"type": "array", "items": {"type": ["string", "integer"]}}, msg=_TEXT, input={}
        ),
    }
)
_REFUSALS: dict[int, tuple[str, tuple[dict[str, Any], ...]]] = {
    400: ("The room id or the category is not allowed.", (_PROBLEM,)),
    401: ("No token, or not a good one.", (_DETAIL,)),
    403: ("The caller may not do this.", (_PROBLEM,)),
    404: ("No such thing.", (_PROBLEM, _DETAIL)),
    405: ("The path does not take this method.", (_DETAIL,)),
    408: ("The request took too long to arrive.", (_PROBLEM,)),
    409: ("The status of the task, or the schema of the job, does not allow it.", (_PROBLEM,)),
    413: ("The body, or what is in it, is too large.", (_PROBLEM,)),
    422: ("The request does not validate, or its Idempotency-Key came with another one.", (_WRONG, _PROBLEM)),
    503: ("Not now; `Retry-After` says when to try again.", (_PROBLEM,)),
    504: ("The provider did not answer in time.", (_PROBLEM,)),
}
EVERYWHERE = (401, 404, 405, 408, 413, 422, 503)


def described(
    path: str,
    answers: dict[int, dict[str, Any] | None],
    *,
    refusals: tuple[int, ...] = (),
    body: type[BaseModel] | None = None,
    query: type[BaseModel] | None = None,
    headers: tuple[str, ...] = (),
    raw: bool = False,
) -> dict[str, Any]:
    """What a route is registered with: its parameters, of which `path` names those in the path, its body, its answers.

    The first of `answers` is the ordinary one; `raw` stands for a body, or an answer, that is bytes of any kind.
    """
    parameters = [
        _parameter("path", name, _TEXT if name in ("room_id", "job_name", "name") else _ID) for name in path.split()
    ]
    if query:
        found = query.model_json_schema()["properties"]
        parameters += [_parameter("query", name, schema) for name, schema in found.items()]
    parameters += [_parameter("header", name, _TEXT, required=name == "X-Request-Hash") for name in headers]
    more: dict[str, Any] = {"parameters": parameters}
    if body:
        more["requestBody"] = {"required": True, "content": {"application/json": {"schema": _whole(body)}}}
    elif raw and 204 in answers:
        more["requestBody"] = {
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
        }
    responses = {status: _response("Done.", shape, raw and status == 200) for status, shape in answers.items()}
    for status in sorted({*EVERYWHERE, *refusals}):
        words, shapes = _REFUSALS[status]
        responses[status] = {
            "description": words,
            "content": {_media_type(shape): {"schema": shape} for shape in shapes},
        }
    return {
        "status_code": next(iter(answers)),
        "responses": responses,
        "openapi_extra": more,
        "response_class": Response,
    }


def _response(words: str, shape: dict[str, Any] | None, raw: bool) -> dict[str, Any]:
    if shape is None:
        return {"description": words, **({"content": {"*/*": {}}} if raw else {})}
    return {"description": words, "content": {"application/json": {"schema": shape}}}


def _media_type(shape: dict[str, Any]) -> str:
    return "application/problem+json" if shape is _PROBLEM else "application/json"


def _parameter(place: str, name: str, schema: dict[str, Any], *, required: bool = False) -> dict[str, Any]:
    return {"name": name, "in": place, "required": required or place == "path", "schema": schema}


def _whole(model: type[BaseModel]) -> dict[str, Any]:
    """The schema of a model with the models in it written out where they stand."""
    schema = model.model_json_schema()
    inner = schema.pop("$defs", {})

    def written_out(value: Any) -> Any:
        if isinstance(value, list):
            return [written_out(each) for each in value]
        if not isinstance(value, dict):
            return value
        if "$ref" in value:
            return written_out(inner[value["$ref"].rpartition("/")[2]])
        return {name: written_out(each) for name, each in value.items()}

    whole: dict[str, Any] = written_out(schema)
    return whole
