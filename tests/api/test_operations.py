"""Rules that keep the knowledge of operations in one table, and the API readable room by room."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated

import httpx
import pytest
from fastapi import APIRouter, Depends, Request

from hub.api.app import TABLE, create_app
from hub.api.operations import ANYBODY, CALLER, operation, row_of, taken, takes
from hub.api.shapes import reading
from hub.api.shapes.answer import Answer
from hub.api.shapes.lease_bodies import RenewBody
from tests.test_layout import TOP, imports, module_of, room
from tests.world import settings_for

API = Path("hub/api")
FILES = sorted(path.relative_to(TOP) for path in (TOP / API).rglob("*.py"))
ENDPOINTS = {"capacity", "jobs", "operators", "console"}
SECRETS = {f"{role}_secret": f"{role}-secret-of-the-test" for role in ("runner", "node", "admin")}
FLOORS = 10
PREFIXES_AND_EXAMPLES = 4  # two prefixes, the address of a channel, the example of a problem document


def beside_rows(path: Path) -> Iterator[str]:
    """The paths of operations that a file names outside decorators and docstrings."""
    heads = {
        "/" + each.split("/")[1] for each in json.loads((TOP / API / "contract/openapi.json").read_text())["paths"]
    }
    begins = re.compile(rf"\^?\(?(?:{'|'.join(map(re.escape, heads))})(?:[/\"(|{{]|$)")
    tree = ast.parse((TOP / path).read_text())
    in_rows = {id(each) for node in ast.walk(tree) for each in decorators_and_docstring(node)}
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in in_rows else None
        if isinstance(text, str) and begins.match(text):
            yield f"{path}: {text}"


def decorators_and_docstring(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        for decorator in node.decorator_list:
            yield from ast.walk(decorator)
    body = node.body if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) else []
    if body and isinstance(body[0], ast.Expr):
        yield body[0].value


def test_the_code_of_the_api_names_the_path_of_an_operation_only_in_its_table_row() -> None:
    found = [named for path in FILES for named in beside_rows(path)]
    assert len(found) <= PREFIXES_AND_EXAMPLES, found
    rows = (TOP / API / "capacity/leases.py").read_text()
    assert '"/session/borrow"' in rows  # these files hold the text that is searched for


def test_a_chain_of_imports_between_packages_of_the_api_has_ten_packages_at_most() -> None:
    """The longest chain of imports from room to room."""
    rooms: dict[Path, set[Path]] = {}
    for path in FILES:
        used = {found for name in imports(path) if (found := module_of(name)) in FILES}
        rooms.setdefault(room(path), set()).update(room(each) for each in used if each and each.name != "__init__.py")

    @cache
    def floors(name: Path) -> int:
        return 1 + max((floors(used) for used in rooms.get(name, ()) if used != name), default=0)

    assert max(map(floors, rooms)) <= FLOORS
    assert floors(API / "app.py") > floors(API / "pipeline.py") > floors(API / "operations.py")


def test_endpoints_leave_the_check_of_the_caller_to_the_pipeline() -> None:
    """Endpoints get the caller from `admission`, and do not import the modules that identify it."""
    asks = {"admit", "find_user", "node", "joiner", "finding"}
    found = []
    for path in FILES:
        if path.parts[2] in ENDPOINTS:
            for node in ast.walk(ast.parse((TOP / path).read_text())):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hub.api.callers"):
                    found += [f"{path}: {each.name}" for each in node.names if each.name in asks]
    assert found == []


def test_every_operation_of_the_contract_names_its_callers_or_tells_the_state_of_the_hub() -> None:
    everybodys = {row.route.operation_id for row in TABLE.rows if row.route.include_in_schema and not row.facts.who}
    assert everybodys == {"getHealth", "getHubReadiness", "getLiveness", "getReadiness", "getMetrics"}


@pytest.mark.parametrize("credential", ["", "wrong", "admin-secret-of-the-test"])
async def test_an_endpoint_called_without_the_pipeline_refuses(redis_server, credential) -> None:  # type: ignore[no-untyped-def]
    """The routes without the pipeline, served as a plain FastAPI application, let no caller in."""
    app = create_app(settings_for(redis_server.url, **SECRETS), sweep=False).app
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    rows = [row for row in TABLE.rows if row.facts.who and ANYBODY not in row.facts.who]
    assert len(rows) > 80
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://hub", headers={"x-hub-secret": credential}) as api,
    ):
        let_in = []
        for row in rows:
            path = re.sub(r"\{task_id[^}]*\}", "3f1c9a64-7d2e-4b58-9c11-5e0a8f7b2d43", row.path)
            answer = await api.request(row.method, re.sub(r"\{[^}]+\}", "x", path), json={})
            if answer.is_success or answer.status_code >= 500:
                let_in.append((row.method, row.path, answer.status_code))
        assert let_in == []


def test_an_operation_that_asks_more_of_its_caller_names_its_callers() -> None:
    """A row without callers is open to all; a row for users without scopes would also let node tokens in."""
    for row in TABLE.rows:
        facts = row.facts
        asks_more = facts.scopes or facts.superuser or facts.joins or facts.anonymous
        assert facts.who or not asks_more, row.path
        assert facts.who != CALLER or facts.scopes or facts.superuser or facts.anonymous, row.path
        assert row.is_plain, f"{row.path}: the router of the framework would choose its endpoint again"


READ: list[str] = []
router = APIRouter()


def first(request: Request) -> str:
    READ.append("first")
    return request.url.path


@takes(body=RenewBody)
async def second(_: Request) -> str:
    READ.append("second")
    return "body"


@router.post("/things/{name}", **operation("make", (ANYBODY,)))
async def make(
    name: str, one: Annotated[str, Depends(first)], request: Request, two: Annotated[str, Depends(second)]
) -> Answer[list[str]]:
    return Answer([name, one, request.method, two])


async def test_an_endpoint_is_called_with_what_its_signature_names_in_that_order() -> None:
    row = row_of(router.routes, make)
    assert (row.is_plain, taken(row.route).body) == (True, RenewBody)
    scope = {"type": "http", "method": "POST", "path": "/things/x", "headers": [], "path_params": {"name": "x"}}
    request = Request({**scope, "server": ("hub", 80), "query_string": b"", "scheme": "http"})
    answer = await row.endpoint(*await row.read(request))
    assert (answer.document, READ) == (["x", "/things/x", "POST", "body"], ["first", "second"])


def test_an_endpoint_with_a_parameter_that_only_the_framework_can_read_is_left_to_it() -> None:
    router = APIRouter()

    @router.get("/things", **operation("list", (ANYBODY,)))
    async def things(limit: int = 10) -> Answer[list[int]]:
        return Answer([limit])

    assert not row_of(router.routes, things).is_plain


async def test_dependencies_of_endpoints_can_be_overridden(redis_server) -> None:  # type: ignore[no-untyped-def]
    made = create_app(settings_for(redis_server.url), sweep=False)
    transport = httpx.ASGITransport(app=made)  # type: ignore[arg-type]
    async with (
        made.app.router.lifespan_context(made.app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as api,
    ):
        assert (await api.get("/sessions?limit=0")).status_code == 400
        made.app.dependency_overrides[reading.page] = lambda: (0, 1)
        assert (await api.get("/sessions?limit=0")).json() == {"total": 0, "sessions": []}
