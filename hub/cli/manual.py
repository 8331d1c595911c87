"""`hub manual`: the documentation that this installation carries, page by page."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.markdown import Markdown

import hub
from hub.cli import output, tables
from hub.cli.inputs import Usage, shown

FOLDER = Path(hub.__file__).parent / "manual"
INDEX = "README.md"  # a code host shows it when somebody opens the folder
_ENTRY = re.compile(r"^- \[(\w+)\]\(\1\.md\): (.+)$", re.MULTILINE)


class ManualPage(NamedTuple):
    """A page and what it is about, as the index says it."""

    name: str
    about: str


def pages() -> list[ManualPage]:
    """The pages, in the order in which a newcomer reads them."""
    return [ManualPage(*entry) for entry in _ENTRY.findall((FOLDER / INDEX).read_text(encoding="utf-8"))]


def manual(
    page: Annotated[str | None, typer.Argument(metavar="PAGE", help="Else all are named.")] = None,
) -> None:
    """Read the manual of this version: without PAGE its pages are listed."""
    known = pages()
    if page is None:
        tables.put_table(("PAGE", "ABOUT"), known)
        output.put("\nRead one with: hub manual PAGE")
        return
    name = page.strip().lower().removesuffix(".md")
    if name not in {each.name for each in known}:
        raise Usage(f"There is no page {shown(page)}; the pages are {', '.join(each.name for each in known)}.")
    text = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    output.put_rendered(tables.render(Markdown(text), sys.stdout) if sys.stdout.isatty() else text.rstrip("\n"))
