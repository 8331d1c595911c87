"""The pages, as tests read them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

TOP = Path(__file__).parent.parent.parent
MANUAL = TOP / "hub" / "manual"
PAGES = sorted(MANUAL.glob("*.md"))
DOCUMENTS = [TOP / "README.md", *PAGES, *sorted((TOP / ".github").rglob("*.md")), TOP / "tests" / "README.md"]
_EXAMPLE = re.compile(r"^<!-- run(?:: (.+?))? -->\n```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"^<!-- file: (\S+) -->\n```\w+\n(.*?)^```", re.MULTILINE | re.DOTALL)


class Example(NamedTuple):
    """Something that a page says can be run, and what is to be seen then."""

    document: Path
    shows: str
    language: str
    text: str


def named(path: Path) -> str:
    """Return the path of a document, by which its tests are named."""
    return str(path.relative_to(TOP))


def examples() -> Iterator[Example]:
    """Everything that is marked as runnable."""
    for document in DOCUMENTS:
        for shows, language, text in _EXAMPLE.findall(document.read_text()):
            yield Example(document, shows, language, text)


def files(document: Path) -> dict[str, str]:
    """Return the files that a page shows beside its programs: name and content."""
    return dict(_FILE.findall(document.read_text()))


def rows(text: str) -> list[list[str]]:
    """Return the cells of every row of every table."""
    found = re.findall(r"^\|(.*)\|$", text, re.MULTILINE)
    return [[cell.strip() for cell in row.split("|")] for row in found]


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings, as code hosts write them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"(?ms)^```.*?^```", "", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
