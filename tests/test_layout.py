"""Rules of the layout of the project. Nothing here needs Redis; there is no list of exceptions."""

import ast
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from hub.store.keys import TABLE, lua_module
from hub.store.library import EXTERNAL, Command, library
from hub.store.library import MODULES as MODULES_IN_ORDER
from tests.mutants.in_bundles import BUNDLES
from tests.mutants.in_flight import FLIGHT
from tests.mutants.in_holders import HOLDERS
from tests.mutants.in_holds import HOLDS
from tests.mutants.in_jobs import TASKS
from tests.mutants.in_matching import MATCHING
from tests.mutants.in_rules import RULES
from tests.mutants.in_served_caps import SERVED
from tests.mutants.in_spilling import SPILLING
from tests.mutants.in_usage import USAGE
from tests.mutants.mistakes import MISTAKES

TOP = Path(__file__).parent.parent
MODULES = sorted(path.relative_to(TOP) for path in (TOP / "hub").rglob("*.py"))
TESTS = sorted(path.relative_to(TOP) for path in (TOP / "tests").rglob("*.py"))
SCREENS = sorted(
    path.relative_to(TOP) for path in (TOP / "hub" / "console").rglob("*.js") if "vendor" not in path.parts
)
SCRIPTS = sorted(path.relative_to(TOP) for path in (TOP / "lua").rglob("*.lua"))

BASE = {"errors", "wire", "randoms", "retries", "batched", "outgoing", "settings", "observability"}
DOMAINS = {"nodes", "capacity", "audit", "tokens", "hooks", "jobs", "recovery", "usage"}
BELOW_CORE = BASE | {"store", "teams"} | DOMAINS
# part of hub/ -> the other parts it may import
MAY_IMPORT = {
    "__init__": set(),
    "errors": set(),
    "wire": set(),
    "randoms": set(),
    "retries": set(),
    "batched": set(),
    "processes": set(),
    "outgoing": {"errors"},
    "settings": {"errors"},
    "observability": {"errors", "settings"},
    "store": BASE,
    "console": set(),  # files of a page, which asks over HTTP
    **{domain: BASE | {"store"} for domain in DOMAINS},
    "teams": BASE | {"store", "capacity", "tokens"},
    "core": BELOW_CORE,
    "sweeping": BELOW_CORE | {"core"},
    "doctor": BELOW_CORE | {"core"},
    "history": BELOW_CORE | {"core"},
    "internal": BELOW_CORE | {"core"},
    "api": BELOW_CORE | {"core", "sweeping", "doctor", "history", "internal", "console", "__init__"},
    "fleet": {"errors", "retries", "outgoing", "processes", "observability", "capacity", "client"},
    "client": {"errors", "retries", "batched", "outgoing"},  # and what is in `OF_CLIENTS` of other parts
    "pytest_plugin": {"client", "errors"},
    "loop": {"errors", "retries", "recovery"},  # for processes of the users, which have no store
    "gate": BASE | {"api", "client"},
    "cli": BELOW_CORE
    | {"core", "sweeping", "doctor", "internal", "api", "client", "fleet", "gate", "processes", "__init__"},
}
OF_CLIENTS = {"models", "attributes"}  # modules that need no other package
# third-party package -> the parts of hub/ that may import it
AT_HOME_IN = {
    "fastapi": {"api"},
    "starlette": {"api", "gate"},
    "uvicorn": {"api", "cli", "gate"},
    "socketio": {"api", "client"},
    "engineio": {"api"},
    "websockets": {"api", "fleet"},
    "redis": {"store"},
    "hiredis": {"store"},
    "fakeredis": {"store"},
    "gate": BASE | {"api", "client"},
    "cli": BELOW_CORE
    | {"core", "sweeping", "doctor", "internal", "api", "client", "fleet", "gate", "processes", "__init__"},
    "typer": {"cli"},
    "rich": {"cli"},
    "taskiq": {"jobs"},
    "sqlalchemy": {"recovery", "loop"},
    "structlog": {"observability"},
    "opentelemetry": {"observability"},
    "prometheus_client": {"observability", "api", "client", "loop"},  # what workers count is theirs to show
    "pydantic_settings": {"settings"},
    "pytest": {"pytest_plugin"},
    "dotenv": {"settings"},
    "jwt": {"tokens"},
}
# Rooms within a room that keep to themselves as if they stood beside it.
APART = {("capacity", "nodes"), ("recovery", "loop")}
PURE = {"models", "labels", "liveness", "wishes"}


def of_each(paths: Iterable[Path]) -> Callable[[Callable[[Path], None]], Callable[[], None]]:
    """The test of one file as a test of all of these: thousands of tests would take longer to count than to run."""

    def decorate(test: Callable[[Path], None]) -> Callable[[], None]:
        def test_of_all() -> None:
            broken = {}
            for path in paths:
                try:
                    test(path)
                except AssertionError as error:
                    broken[str(path)] = str(error)
            assert broken == {}

        test_of_all.__name__ = test.__name__
        return test_of_all

    return decorate


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse((TOP / path).read_text(), str(path))


@cache
def nodes(path: Path) -> list[ast.AST]:
    """Return all syntax nodes of a module."""
    return list(ast.walk(tree(path)))


def part(path: Path) -> str:
    """Return the room of a file: the package or module right below hub/, or one of the rooms that are kept apart."""
    return path.parts[2] if path.parts[1:3] in APART else path.parts[1].removesuffix(".py")


def imports(path: Path) -> Iterator[str]:
    """Dotted names of everything a module imports, also inside functions; relative imports are spelled out."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join([*path.parent.parts[: len(path.parent.parts) + 1 - node.level], node.module or ""])
            origin = base.rstrip(".") if node.level else node.module or ""
            yield from (f"{origin}.{name.name}" for name in node.names)


def hub_part(name: str) -> str | None:
    """Return the part of hub/ that an imported name lives in, None for other packages."""
    pieces = name.split(".")
    if pieces[0] != "hub":
        return None
    if tuple(pieces[1:3]) in APART:
        return pieces[2]
    known = len(pieces) > 1 and ((TOP / "hub" / pieces[1]).is_dir() or (TOP / "hub" / f"{pieces[1]}.py").is_file())
    return pieces[1] if known else "__init__"


def test_the_package_hub_contains_exactly_the_known_subpackages():
    assert {part(path) for path in MODULES} <= set(MAY_IMPORT)


@of_each(MODULES)
def test_imports_go_only_to_lower_layers(path):
    here = part(path)
    wrong = [
        name
        for name in imports(path)
        if hub_part(name) not in (None, here, *MAY_IMPORT[here])
        and not (here == "client" and OF_CLIENTS & set(name.split(".")))
    ]
    assert wrong == []


def test_there_are_no_circular_imports():
    """Neither of modules, nor of screens, nor of rooms; imports for types and inside functions count too."""
    uses = {path: {found for name in imports(path) if (found := module_of(name))} for path in MODULES}
    for path in SCREENS:
        named = re.findall(r"""(?:from|import)\s*\(?\s*["'](\.[^"']+)["']""", (TOP / path).read_text())
        uses[path] = {(TOP / path.parent / name).resolve().relative_to(TOP) for name in named}
    assert any(uses[path] for path in SCREENS)
    rooms: dict[Path, set[Path]] = {}
    for path in MODULES:
        rooms.setdefault(room(path), set()).update(map(room, uses[path]))
    for graph in (uses, rooms):
        ways = {one: others - {one} for one, others in graph.items()}
        TopologicalSorter(ways).prepare()  # raises `CycleError`, which names one


def room(path: Path) -> Path:
    """Return the folder of a file; the file itself where it stands beside rooms."""
    return path if path.parent in (Path("hub"), Path("hub/api")) else path.parent


def module_of(name: str) -> Path | None:
    """Return the file that an imported name is in; None for other packages."""
    path = Path(*name.split("."))
    while path.parts[:1] == ("hub",):
        for found in (path.with_suffix(".py"), path / "__init__.py"):
            if (TOP / found).is_file():
                return found
        path = path.parent
    return None


@of_each(MODULES)
def test_third_party_packages_are_imported_only_by_their_own_layers(path):
    packages = {name.split(".")[0] for name in imports(path)}
    assert {package for package in packages if part(path) not in AT_HOME_IN.get(package, {part(path)})} == set()


def test_every_http_client_is_made_in_one_place():
    calls = r"httpx\.(?:(?:Async)?Client|get|post|put|patch|delete|request|stream)\(|urlopen\("
    made = re.compile(calls + r"|= httpx\.(?:Async)?Client\b")
    found = {str(path) for path in MODULES if made.search((TOP / path).read_text())}
    assert found == {"hub/outgoing.py", "hub/client/transport.py"}  # the latter again in each forked child


@of_each([path for path in MODULES if path.stem in PURE])
def test_pure_modules_import_no_io(path):
    other = {name for name in imports(path) if name.split(".")[0] in {*AT_HOME_IN, "asyncio", "socket", "os", "time"}}
    ours = {name for name in imports(path) if hub_part(name) and not _is_pure(name)}
    assert (other, ours) == (set(), set())


def _is_pure(name: str) -> bool:
    return name.startswith(("hub.errors.", "hub.store.keys.")) or not PURE.isdisjoint(name.split("."))


@pytest.mark.parametrize(
    ("paths", "most"), [(MODULES, 400), (TESTS, 500), (SCRIPTS, 80)], ids=["modules", "test modules", "scripts"]
)
def test_no_file_is_longer_than_its_limit(paths, most):
    assert {str(path): lines for path in paths if (lines := len((TOP / path).read_text().splitlines())) > most} == {}


@of_each(MODULES + TESTS)
def test_no_function_is_longer_than_fifty_lines(path):
    functions = (node for node in nodes(path) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    assert {f.name: n for f in functions if (n := (f.end_lineno or 0) - f.lineno + 1) > 50} == {}


def test_no_two_classes_have_the_same_name():
    places: dict[str, list[str]] = {}
    for path in MODULES:
        for node in nodes(path):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(f"{path}:{node.lineno}")
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


@of_each(MODULES)
def test_every_module_has_a_docstring(path):
    assert ast.get_docstring(tree(path)), "a module begins with a sentence"


@of_each(SCRIPTS)
def test_every_script_begins_with_a_comment(path):
    assert (TOP / path).read_text().startswith("-- ")


KEY_TEXT = re.compile(
    "(?:" + "|".join(sorted({re.escape(key.head) for key in TABLE.values() if ":" in key.pattern}, key=len)[::-1]) + ")"
)


def texts(path: Path) -> Iterator[str]:
    """Every string of a module that is no docstring."""
    docstrings = {
        id(node.body[0].value)
        for node in nodes(path)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in nodes(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


@of_each([path for path in MODULES if path.parent != Path("hub/store/keys")])
def test_only_the_keys_module_contains_the_text_of_keys(path):
    # "node: x" is a sentence, "node:" and "node:x" are keys.
    found = [text for text in texts(path) if (head := KEY_TEXT.match(text)) and not text[head.end() :].startswith(" ")]
    assert found == []


@of_each(SCRIPTS)
def test_scripts_take_their_keys_from_the_keys_module(path):
    code = re.sub(r"--.*", "", (TOP / path).read_text())
    keys = re.findall(r"""call\(\s*["']\w+["']\s*,\s*["']([^"'\n]*)["']""", code)
    assert [text for text in keys if KEY_TEXT.match(text)] == []


@of_each([path for path in MODULES if part(path) != "doctor"])
def test_only_the_doctor_reads_the_whole_keyspace_at_once(path):
    assert "KEYS" not in set(texts(path))
    assert "scan_iter" not in {node.attr for node in nodes(path) if isinstance(node, ast.Attribute)}


def test_no_script_walks_the_keyspace():
    walking = re.compile(r"call\(\s*['\"](KEYS|SCAN)['\"]", re.IGNORECASE)
    assert [str(path) for path in SCRIPTS if walking.search((TOP / path).read_text())] == []


COMMANDS = sorted(path.relative_to(TOP) for path in (TOP / "lua").glob("*/*/*.lua"))
FOREIGN = sorted(path.relative_to(TOP) for path in (TOP / "lua" / "external").glob("*.lua"))
LUA_MODULES = [*MODULES_IN_ORDER, *(name for name in EXTERNAL if name not in MODULES_IN_ORDER)]


def lua_text(name: str) -> str:
    """Return a module of the library without its comments."""
    text = lua_module() if name == "keys" else (TOP / "lua" / f"{name}.lua").read_text()
    return re.sub(r"--.*", "", text)


@cache
def lua_fields() -> dict[str, set[str]]:
    """Module of the library -> what it offers."""
    found = {}
    for name in LUA_MODULES:
        found[name] = set(re.findall(rf"^ *(?:function )?{name}\.(\w+)(?:\(| =)", lua_text(name), re.MULTILINE))
        several = re.findall(rf"^ *({name}\.\w+(?:, {name}\.\w+)+) =", lua_text(name), re.MULTILINE)
        found[name] |= {field for some in several for field in re.findall(r"\.(\w+)", some)}
    return found


def lua_uses(text: str) -> set[tuple[str, str]]:
    """Return the fields of modules that a Lua text uses."""
    code = re.sub(r"--.*|'[^'\n]*'", "", text)
    return set(re.findall(rf"(?<![\w.])({'|'.join(LUA_MODULES)})\.(\w+)", code))


def test_every_lua_file_is_a_module_in_the_list_or_a_command():
    listed = {Path("lua", f"{name}.lua") for name in LUA_MODULES if name != "keys"}
    assert set(SCRIPTS) == listed | set(COMMANDS) | set(FOREIGN)
    named = re.search(r"modules = \{(.*?)\}", (TOP / ".luacheckrc").read_text(), re.DOTALL)
    assert named
    assert set(re.findall(r"'(\w+)'", named[1])) == set(LUA_MODULES) - {"call_state", "store"}


@pytest.mark.parametrize("name", [name for name in LUA_MODULES if name != "keys"])
def test_a_lua_module_is_one_table_with_the_name_of_its_file(name):
    text = (TOP / "lua" / f"{name}.lua").read_text()
    assert f"\nlocal {name} = {{}}\n" in text
    assert text.endswith(f"\nreturn {name}\n")


@pytest.mark.parametrize("name", MODULES_IN_ORDER)
def test_a_lua_module_uses_only_modules_before_it(name):
    here = MODULES_IN_ORDER.index(name)
    assert {used for used, _ in lua_uses(lua_text(name))} <= set(MODULES_IN_ORDER[: here + 1])


@pytest.mark.parametrize("path", SCRIPTS, ids=str)
def test_every_used_function_of_a_lua_module_exists(path):
    assert {
        (name, field) for name, field in lua_uses((TOP / path).read_text()) if field not in lua_fields()[name]
    } == set()


@pytest.mark.parametrize("path", COMMANDS + FOREIGN, ids=str)
def test_a_command_has_the_name_of_its_file_and_its_declared_arguments(path):
    text = (TOP / path).read_text()
    command = Command.declared(text)
    assert command.name == f"{path.parent.name}/{path.stem}"
    code = re.sub(r"--.*", "", text).partition("}, function(")[2]
    assert set(re.findall(r"(?<![\w.])a\.(\w+)", code)) == set(command.arguments)
    assert command.takes_rest >= ("argv" in code)
    assert "Returns" in text.partition("\ncommand")[0]


def test_the_folders_of_commands_are_packages_of_the_hub():
    rooms = {path.stem for path in MODULES} | {path.parent.name for path in MODULES}
    assert {path.parent.name for path in COMMANDS} <= rooms


def script_calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    """Yield the calls of commands in a module, whether the command is kept in an attribute or called at once."""
    kept: dict[str, str] = {}
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
            for name in script_names(node.value):
                kept[node.targets[0].attr] = name
    for node in ast.walk(tree(path)):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.value if isinstance(node.func, ast.Attribute) and node.func.attr == "probe" else node.func
        if isinstance(called, ast.Attribute) and called.attr in kept:
            yield kept[called.attr], node
        elif isinstance(called, ast.Call):
            for name in script_names(called):
                yield name, node


def script_names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "script":
        yield from (each.value for each in node.args if isinstance(each, ast.Constant))


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_commands_are_called_with_the_arguments_they_declare(path):
    declared = library().commands
    for name, call in script_calls(path):
        given = {keyword.arg for keyword in call.keywords}
        if None not in given:  # arguments passed with ** are checked when the call runs
            assert given - {"rest"} == set(declared[name].arguments), f"{name} at line {call.lineno}"
            assert ("rest" in given) <= declared[name].takes_rest, f"{name} at line {call.lineno}"


def test_every_command_is_used_and_exists():
    named = {name for path in MODULES for node in ast.walk(tree(path)) for name in script_names(node)}
    assert sum(1 for path in MODULES for _ in script_calls(path)) > 80
    everywhere = {text for path in MODULES for text in texts(path)}
    assert named <= set(library().commands)
    assert set(library().commands) - everywhere == set()


def catches_everything(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or getattr(kind, "id", "") in ("Exception", "BaseException") for kind in kinds)


@of_each(MODULES)
def test_a_broad_except_raises_passes_on_or_logs_and_counts_the_error(path):
    silent = []
    for handler in nodes(path):
        if not (isinstance(handler, ast.ExceptHandler) and catches_everything(handler)):
            continue
        body = [node for statement in handler.body for node in ast.walk(statement)]
        raises = any(isinstance(node, ast.Raise) for node in body)
        hands_on = handler.name in {node.id for node in body if isinstance(node, ast.Name)}
        calls = {node.func.attr for node in body if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)}
        logs_and_counts = "inc" in calls and calls & {"warning", "error", "exception", "critical"}
        if not (raises or hands_on or logs_and_counts):
            silent.append(handler.lineno)
    assert silent == []


def listed_at_the_top() -> set[str]:
    """The names at the top that belong to the project: as git sees it in a checkout, as the folder shows otherwise."""
    command = ["git", "-C", str(TOP), "ls-files", "--cached", "--others", "--exclude-standard"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        found = [path.name for path in TOP.iterdir() if path.name not in ("build", "dist")]
    return {name.split("/")[0] for name in found if (TOP / name).exists()}


def test_the_top_folder_contains_exactly_the_expected_files():
    names = {name for name in listed_at_the_top() if not name.startswith(".") or name == ".env.example"}
    assert names == {
        "pyproject.toml", "README.md", "LICENSE", "requirements.lock", "Makefile", ".env.example",
        "hub", "lua", "tests", "deploy",
    }  # fmt: skip


def test_no_ignored_file_is_committed():
    command = ["git", "-C", str(TOP), "ls-files", "--cached", "--ignored", "--exclude-standard"]
    assert subprocess.run(command, capture_output=True, text=True).stdout.split() == []


def test_every_planted_mistake_finds_its_text_in_the_code():
    """A mutant whose text is gone proves nothing; it must move along with the rule that it breaks."""
    found = {f"{each.script}: {each.why}": (TOP / each.path).read_text().count(each.old) for each in
             (*FLIGHT, *TASKS, *BUNDLES, *MISTAKES, *HOLDS, *SERVED, *MATCHING, *HOLDERS, *RULES, *USAGE,
              *SPILLING)}  # fmt: skip
    assert {why for why, times in found.items() if times != 1} == set()
