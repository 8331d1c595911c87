"""Answers of a hub against its contract: the operation, the status, the kind of content, and every member of it."""

from __future__ import annotations

import json
from typing import Any

import httpx
from jsonschema_rs import Draft202012Validator

from hub.api.app import routes
from hub.api.publish import FILE

DOCUMENT: dict[str, Any] = json.loads(FILE.read_bytes())
ALIAS = "/api/v1"


def named() -> dict[str, str]:
    """Return every operation: its id, and how it is called."""
    return {
        operation["operationId"]: f"{method.upper()} {path}"
        for path, methods in DOCUMENT["paths"].items()
        for method, operation in methods.items()
    }


class Contract:
    """Holds answers against the document, in which no member may stand that the document does not name."""

    def __init__(self) -> None:
        self.answered: set[str] = set()  # operations that succeeded at least once
        self._routes = [
            (each.path_regex, method.lower(), each.path_format) for each in routes() for method in each.methods or ()
        ]
        self._components = {**DOCUMENT["components"], "schemas": closed(DOCUMENT["components"]["schemas"])}
        self._validators: dict[str, Draft202012Validator] = {}

    def check(self, answer: httpx.Response) -> None:
        """Fail unless the answer is one that the contract tells of."""
        method, path = answer.request.method, answer.request.url.path
        template = self._template(method.lower(), path)
        if template is None:
            return
        operation = DOCUMENT["paths"][template][method.lower()]
        where = f"{operation['operationId']}: {method} {path} answered {answer.status_code}"
        shape = operation["responses"].get(str(answer.status_code))
        assert shape is not None, f"{where}, which the contract does not name: {answer.text}"
        if "$ref" in shape:
            shape = self._components["responses"][shape["$ref"].rpartition("/")[2]]
        self._content(where, shape, answer)
        if answer.is_success:
            self.answered.add(operation["operationId"])
        for header in ("retry-after", "location", "correlation-id", "preference-applied", "www-authenticate"):
            if header in answer.headers:
                told = {name.lower() for name in shape.get("headers", {})}
                assert header in told, f"{where} with {header}, which the contract does not name"

    def _template(self, method: str, path: str) -> str | None:
        path = path.removeprefix(ALIAS) if path.startswith(f"{ALIAS}/") else path
        for pattern, takes, template in self._routes:
            if takes == method and pattern.match(path):
                return template
        return None

    def _content(self, where: str, shape: dict[str, Any], answer: httpx.Response) -> None:
        content = shape.get("content", {})
        if not content:
            assert answer.content == b"", where
            return
        kind = answer.headers["content-type"].partition(";")[0]
        if "*/*" in content:
            return
        assert kind in content, f"{where} as {kind}, which the contract does not name"
        if not kind.endswith("json"):
            return
        document = answer.json()
        self._valid(where, content[kind]["schema"], document)
        if kind == "application/problem+json":
            code = document.get("code") or document["type"].rpartition("/")[2]
            assert code in shape["x-codes"], f"{where} with the code {code}, which the contract does not name"

    def _valid(self, where: str, schema: dict[str, Any], document: Any) -> None:
        name = json.dumps(schema)
        if name not in self._validators:
            self._validators[name] = Draft202012Validator(
                {**closed(schema), "components": self._components}, validate_formats=True
            )
        found = self._validators[name].iter_errors(document)
        faults = [f"{where}: {list(fault.instance_path)}: {fault.message}" for fault in found]
        assert not faults, f"{faults}\n{json.dumps(document)[:2000]}"


def closed(schema: Any) -> Any:
    """Return the schema, changed to refuse members that it does not name."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: closed(value) for name, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and "additionalProperties" not in schema:
        found["additionalProperties"] = False
    return found
