"""The manual agrees with the repository: links, files, tests, numbers, keys, settings."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from hub.cli import manual
from hub.client.trust import TLS_NAMES
from hub.settings.model import knobs
from hub.store.keys import TABLE
from hub.store.keys.key import Key
from hub.store.keys.public import Public
from tests.capacity import test_labels, test_matching
from tests.manual.key_tables import PAGE, written
from tests.manual.pages import DOCUMENTS, MANUAL, PAGES, TOP, anchors, named, rows

ALL = "\n".join(page.read_text() for page in PAGES)
CAPACITY = {cells[0]: cells for cells in rows((MANUAL / "capacity.md").read_text())}
SOURCES = [
    path for part in ("hub", "tests", "lua") for path in (TOP / part).rglob("*.*") if path.suffix in (".py", ".lua")
]
OF_THE_WIRE = ("wire.md", "contract.md", "jobs.md", "changelog.md")
OLD = re.compile(
    r"browserId|labelKey|matchedLabel|poolLabel|webSocketEndpoint|browserType|leaseToken|\b[a-z]\w+Utc\b(?!`; a time)"
)
SWITCHES = {"borrow_trailing_fallback": "TF off", "borrow_prefix_expand": "PX off", "borrow_wildcards": "WC on"}


def test_the_index_of_the_manual_names_every_page():
    assert sorted(page.name for page in manual.pages()) == [page.stem for page in PAGES if page.name != manual.INDEX]


def test_the_readme_is_short():
    assert len((TOP / "README.md").read_text().splitlines()) <= 150


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_every_link_leads_to_an_existing_place(document):
    text = re.sub(r"(?ms)^```.*?^```", "", document.read_text())
    lost = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        if "://" in target:
            continue
        there = (document.parent / path).resolve() if path else document
        if not there.exists() or (anchor and anchor not in anchors(there.read_text())):
            lost.append(target)
    assert lost == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_names_of_the_published_clients_appear_only_on_pages_about_their_wire(document):
    if document.name not in OF_THE_WIRE:
        assert OLD.findall(document.read_text()) == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_every_file_and_test_that_a_page_names_exists(document):
    spans = re.findall(r"`((?:hub|lua|tests|deploy|\.github)/[\w./]+)(?:::(\w+))?`", document.read_text())
    assert [path for path, _ in spans if not (TOP / path).exists()] == []
    assert [f"{path}::{name}" for path, name in spans if name and f"def {name}(" not in (TOP / path).read_text()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_every_excerpt_of_code_on_a_page_is_in_the_code(document):
    for path, shown in re.findall(r"(?ms)^<!-- from: (\S+) -->\n```\w+\n(.*?)^```", document.read_text()):
        lines = [line.strip() for line in (TOP / path).read_text().splitlines()]
        wanted = [line.strip() for line in shown.splitlines()]
        starts = range(len(lines) - len(wanted) + 1)
        assert any(lines[start : start + len(wanted)] == wanted for start in starts), path


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_every_table_of_a_page_is_in_one_piece(document):
    text = re.sub(r"(?ms)^```.*?^```", "", document.read_text())
    tables = [table.splitlines() for table in re.findall(r"(?m)(?:^\|.*\n)+", text)]
    assert [table[0] for table in tables if not re.fullmatch(r"\|[-| ]+", "".join(table[1:2]))] == []


def used_numbers() -> set[str]:
    """Return every number by which code or tests speak of a rule or an example of the manual."""
    found = set()
    for path in SOURCES:
        text = path.read_text()
        found |= set(re.findall(r"\bC(?:[1-9]|1\d)\b", text))
        found |= {f"{letter.upper()}{number}" for letter, number in re.findall(r"def test_([epmas])(\d+)_", text)}
        found |= set(re.findall(r"""^ +\("([PMAS]\d+)[" ]""", text, re.MULTILINE))
    return found


def test_every_requirement_number_in_code_and_tests_is_defined():
    defined = {cells[0] for cells in rows(ALL)}
    assert used_numbers() >= {"C1", "C12", "E1", "E16", "P1", "M32", "A6", "S12"}
    assert sorted(used_numbers() - defined) == []


def test_every_invariant_names_its_code_and_its_test():
    table = {cells[0]: cells for cells in rows((MANUAL / "architecture.md").read_text()) if re.match(r"C\d", cells[0])}
    assert sorted(table, key=lambda name: int(name[1:])) == [f"C{n}" for n in range(1, 13)]
    for _, what, keeps, attacks in table.values():
        assert len(what) > 40
        assert re.match(r"`(?:lua|hub)/", keeps)
        assert re.match(r"`tests/", attacks)


def test_the_tables_of_keys_match_the_code():
    page = PAGE.read_text()
    assert written(page) == page, "write them anew with `python -m tests.manual.key_tables`"


def test_the_listed_channels_are_those_that_are_published_to():
    text = "\n".join(path.read_text() for path in SOURCES if path.parts[len(TOP.parts)] != "tests")
    said = set(re.findall(r"notifications\.(?:publish|tell)\(keys\.(\w+)", text))
    assert said == {name for name, key in TABLE.items() if key.type == "channel"}


def test_private_keys_are_recognised_by_their_prefix():
    assert all(key.pattern.startswith("hub:") != isinstance(vars(Public).get(name), Key) for name, key in TABLE.items())


def code(text: str | None) -> str:
    return "nothing" if text is None else f"`{text}`"


def numbered(letter: str, table: list[Any]) -> list[Any]:
    """Return the rows of a test's table that have a number in the manual."""
    return [row for row in table if re.fullmatch(rf"{letter}\d+", row[0])]


@pytest.mark.parametrize("row", numbered("M", test_matching.ROWS), ids=lambda row: row[0])
def test_the_examples_of_matching_are_those_that_are_tested(row):
    number, wanted, pools, options, chosen = row
    switches = ", ".join(SWITCHES[name] for name in options) or "defaults"
    shown = " ".join(code(pool) for pool in pools.split()) or "none"
    assert CAPACITY[number] == [number, code(wanted), shown, switches, code(chosen)]


@pytest.mark.parametrize("row", numbered("P", test_labels.ACCEPTED + test_labels.REFUSED), ids=lambda row: row[0])
def test_the_examples_of_labels_are_those_that_are_tested(row):
    number, given, _, result = row
    refused = row in test_labels.REFUSED
    assert CAPACITY[number][2] == (f"refused: `{result}`" if refused else f"`{result}`")
    if given and given.strip():
        assert CAPACITY[number][1].strip("`").strip() == given.replace("\t", "\\t").strip()


def test_every_setting_that_a_page_names_exists():
    known = {name for knob in knobs().values() for name in (knob.name, *knob.aliases)} | set(TLS_NAMES)
    elsewhere = "\n".join(path.read_text() for path in SOURCES if path.suffix == ".py") + (TOP / "Makefile").read_text()
    named_there = set(re.findall(r"\b(?:HUB|REDIS)_[A-Z_]+[A-Z]\b(?!_)", "\n".join(d.read_text() for d in DOCUMENTS)))
    unknown = {name for name in named_there - known if f'"{name}"' not in elsewhere and f"{name}=" not in elsewhere}
    assert unknown == set()


def test_every_action_of_the_audit_log_is_listed():
    code = "\n".join(path.read_text() for path in (TOP / "hub").rglob("*.py"))
    actions = set(re.findall(r'(?:write|refused)\(\s*"\w+",\s+"(\w+(?:\.\w+)*)"', code))
    actions |= {
        f"{kind}.{end}" for kind in ("runner", "node") for end in re.findall(r'"secrets", f"\{kind\}\.([\w.]+)"', code)
    }
    assert {"token.create", "node.expired", "runner.rotation.enabled"} <= actions
    page = (MANUAL / "capacity.md").read_text()
    assert sorted(action for action in actions if f"`{action}`" not in page) == []


def test_the_workflow_tests_every_supported_version_of_python_and_of_the_server():
    workflow = yaml.safe_load((TOP / ".github" / "workflows" / "test.yml").read_text())
    (job,) = workflow["jobs"].values()
    matrix = job["strategy"]["matrix"]
    assert matrix["python"] == ["3.11", "3.12", "3.13", "3.14"]
    servers = {(each["name"], each["version"].rsplit(".", 1)[0]) for each in matrix["server"]}
    assert servers == {("redis", "7.0"), ("redis", "7.4"), ("redis", "8.0"), ("valkey", "8.1")}
    assert job["steps"][-1]["run"] == ".ci/run"
    assert all(re.search(r"@v\d+\.\d+\.\d+$", step["uses"]) for step in job["steps"] if "uses" in step)


def test_the_commit_hooks_use_only_locally_installed_tools():
    hooks = yaml.safe_load((TOP / ".pre-commit-config.yaml").read_text())["repos"]
    assert [hook["id"] for repo in hooks for hook in repo["hooks"]] == ["ruff", "ruff-format", "layout", "subject"]
    assert {repo["repo"] for repo in hooks} == {"local"}


def test_the_release_workflow_builds_and_checks_a_tag_with_make_dist():
    workflow = yaml.safe_load((TOP / ".github" / "workflows" / "release.yml").read_text())
    assert workflow[True] == {"push": {"tags": ["v*"]}}  # YAML reads the word `on` as true
    (job,) = workflow["jobs"].values()
    assert "make dist" in [step.get("run") for step in job["steps"]]
    assert all(re.search(r"@v\d+\.\d+\.\d+$", step["uses"]) for step in job["steps"] if "uses" in step)
    recipe = (TOP / "Makefile").read_text().partition("\ndist:")[2].partition("\n\n")[0]
    assert recipe.index("hatchling build") < recipe.index("twine check --strict") < recipe.index("tests.dist")
