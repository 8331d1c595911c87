"""What the OpenAPI document says of bodies that are read leniently. Shown to people and generators, not enforced."""

from __future__ import annotations

from typing import Any

_TEXT = {"type": "string"}
_LABEL = {"type": "string", "description": "two to eight segments, such as gpu:a100:eu", "examples": ["gpu:a100:eu"]}
_TEXTS = {"type": "object", "additionalProperties": _TEXT}
_SLOT = {
    "type": "object",
    "required": ["labelKey", "slotId"],
    "properties": {
        "labelKey": _LABEL,
        "slotId": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,200}$"},
        "webSocketEndpoint": _TEXT,
        "browserType": _TEXT,
        "labels": _TEXTS,
        "idleTimeoutSeconds": {"type": "number", "minimum": 0, "maximum": 86400},
    },
}
_INCARNATION = {
    "type": "string",
    "pattern": "^[A-Za-z0-9._-]{1,64}$",
    "description": "a name of this very process, another one after each start. Who registers with a new one takes "
    "over: the process before is told `superseded` with its next beat, and what it still sends changes nothing",
}
_CALLER = {
    "incarnation": _INCARNATION,
    "number": {
        "type": "integer",
        "minimum": 0,
        "maximum": 2**53,
        "description": "of this call; rises with each call of the incarnation, and stays when one is repeated. A call "
        "older than the last one carried out for a slot leaves that slot alone",
    },
}
_PUBLICATION = {
    **_CALLER,
    "slots": {"type": "array", "items": _SLOT, "maxItems": 1000},
    "pools": {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0, "maximum": 1000}},
    "lent": {"type": "object", "additionalProperties": {"type": "string", "pattern": "^[0-9]{1,19}$"}},
    "policy": {"type": "string", "enum": ["recycle", "reuse"]},
}
PUBLISH = {"type": "object", "properties": _PUBLICATION}
REGISTER = {
    "type": "object",
    "required": ["nodeId"],
    "properties": {
        "nodeId": {"type": "string", "minLength": 1, "maxLength": 512},
        "apps": {"type": "array", "items": _TEXT},
        "capacity": {"type": "integer", "minimum": 0},
        "labels": _TEXTS,
        "baseUrl": _TEXT,
        "drainCall": {
            "type": "object",
            "required": ["on", "number"],
            "properties": {"on": {"type": "boolean"}, "number": _TEXT, "leftMs": {"type": ["integer", "null"]}},
            "description": "the last one a beat was answered: a store that was lost drains the node again, as the last "
            "call said",
        },
        "term": {
            "type": "string",
            "pattern": "^[0-9]{1,19}$",
            "description": "what this incarnation was answered when it registered; it says which of two is newer",
        },
        **_PUBLICATION,
    },
}
BEAT = {
    "type": "object",
    "required": ["nodeId"],
    "properties": {
        "nodeId": {"type": "string", "minLength": 1, "maxLength": 512},
        "version": {"type": "integer", "minimum": 0, "description": "the last one the hub answered"},
        "recycled": {"type": "array", "items": _TEXT, "maxItems": 1000},
        "incarnation": _INCARNATION,
    },
}
BEATS = {
    "type": "object",
    "required": ["beats"],
    "properties": {"beats": {"type": "array", "items": BEAT, "maxItems": 1000}},
}
BORROW = {
    "type": "object",
    "required": ["labelKey"],
    "properties": {
        "labelKey": _LABEL,
        "ttlSeconds": {"type": ["number", "string"]},
        "runName": {"type": "string", "maxLength": 128},
        "runId": {"type": "string", "maxLength": 200},
        "priority": {"type": "integer", "minimum": -100, "maximum": 100},
        "maxWaitSeconds": {"type": "number", "minimum": 0, "maximum": 86400},
    },
}
RETURN = {
    "type": "object",
    "required": ["labelKey", "browserId"],
    "properties": {
        "labelKey": _LABEL,
        "browserId": _TEXT,
        "leaseToken": _TEXT,
        "revoke": {"type": "boolean"},
        "force": {"type": "boolean"},
    },
}
WATCH = {
    "type": "object",
    "required": ["leases"],
    "properties": {
        "leases": {
            "type": "array",
            "minItems": 1,
            "maxItems": 1000,
            "items": {
                "type": "object",
                "required": ["browserId", "leaseToken"],
                "properties": {"browserId": _TEXT, "leaseToken": _TEXT},
            },
        },
        "waitSeconds": {"type": "number", "minimum": 0, "maximum": 30},
    },
}
RENEW = {
    "type": "object",
    "required": ["browserId"],
    "properties": {"browserId": _TEXT, "leaseToken": _TEXT, "ttlSeconds": {"type": "number"}},
}
ATTRIBUTE = {"type": "object", "required": ["testId"], "properties": {"testId": _TEXT, "runId": _TEXT}}
DRAIN = {"type": "object", "properties": {"deadlineSeconds": {"type": "number", "minimum": 1, "maximum": 604_800}}}
SWITCH = {"type": "object", "required": ["expire"], "properties": {"expire": {"type": ["boolean", "null"]}}}
CAP = {
    "type": "object",
    "required": ["cap"],
    "properties": {"cap": {"type": ["integer", "null"], "minimum": 0, "maximum": 999_999_999}, "by": _TEXT},
}
RELEASE = {"type": "object", "properties": {"by": _TEXT, "of": {"type": "string", "enum": ["nodes", "workers"]}}}
SWEEP = {"type": "object", "properties": {"dryRun": {"type": "boolean"}}}

PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "code", "instance"],
    "properties": {
        "type": _TEXT,
        "title": _TEXT,
        "status": {"type": "integer"},
        "code": _TEXT,
        "detail": _TEXT,
        "instance": _TEXT,
        "traceId": _TEXT,
    },
}
_WORDS = {
    400: "What was sent cannot be used; `detail` says what would be right.",
    401: "The secret is missing or wrong.",
    404: "No such thing.",
    405: "The path does not take this method.",
    408: "The request took too long to arrive.",
    409: "The grant, or whatever else this is about, is over.",
    413: "The body is too large.",
    422: "The Idempotency-Key was used with another request.",
    503: "Not now; `Retry-After` says when to try again.",
}
REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"description": words, "content": {"application/problem+json": {"schema": PROBLEM}}}
    for status, words in _WORDS.items()
}


def refused(status: int, words: str) -> dict[int | str, dict[str, Any]]:
    """The OpenAPI description of a refusal that few endpoints have."""
    return {status: {"description": words, "content": {"application/problem+json": {"schema": PROBLEM}}}}


def body(schema: dict[str, Any], *, required: bool = True) -> dict[str, Any]:
    """The OpenAPI addition for a JSON body."""
    return {"requestBody": {"required": required, "content": {"application/json": {"schema": schema}}}}


def query(**parameters: str) -> dict[str, Any]:
    """The OpenAPI addition for optional query parameters: name=type."""
    listed = [{"name": name, "in": "query", "schema": {"type": kind}} for name, kind in parameters.items()]
    return {"parameters": listed}


def preference() -> dict[str, Any]:
    """The OpenAPI addition for `Prefer: wait=N`."""
    schema = {"type": "string", "examples": ["wait=20"]}
    return {"parameters": [{"name": "Prefer", "in": "header", "schema": schema}]}
