"""`hub manual`: shows a page of the installed manual, or the paragraphs on a word or an alert."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.markdown import Markdown
from typer import Option

import hub
from hub.cli import output, tables
from hub.cli.inputs import Usage, shown
from hub.cli.options import Input

FOLDER = Path(hub.__file__).parent / "manual"
INDEX = "README.md"  # the name of the file that code hosts show with a folder
GLOSSARY = "glossary"
FOR_MODELS = "models"
MOST = 6  # the most paragraphs shown for a word
DEFINES = 100  # the score of a table row that begins with the word
_ENTRY = re.compile(r"^- \[(\w+)\]\(\1\.md\): (.+)$", re.MULTILINE)
_HEADING = re.compile(r"#+ +(.+)")


class ManualPage(NamedTuple):
    """A page of the manual, with its line in the index."""

    name: str
    about: str


class Paragraph(NamedTuple):
    """A paragraph, list item, table row or block of code, with its page and the heading above it."""

    page: str
    heading: str
    text: str


def pages() -> list[ManualPage]:
    """Return the pages, in the order in which a newcomer reads them."""
    return [ManualPage(*entry) for entry in _ENTRY.findall((FOLDER / INDEX).read_text(encoding="utf-8"))]


def manual(
    topic: str | None = Input("PAGE|WORD").argument("A page, an alert such as HubDown, or a word.", default=None),
    models: bool = Option(False, "--for-models", help="Print one page that explains the hub to a language model."),
) -> None:
    """Read the manual of this version: a page, or the paragraphs on an alert or a word. Default: list the pages."""
    if models:
        if topic is not None:
            raise Usage("--for-models prints one page: give no other.")
        output.put_rendered(for_models().rstrip("\n"))
        return
    if topic is None:
        tables.put_table(("PAGE", "ABOUT"), pages())
        output.put("\nRead one with: hub manual PAGE; find what is said of something with: hub manual WORD")
        return
    text = _page(topic) or _found(topic)
    if text is None:
        raise Usage(_unknown(topic))
    output.put_rendered(tables.render(Markdown(text), sys.stdout) if sys.stdout.isatty() else text.rstrip("\n"))


def for_models() -> str:
    """Return the page that explains the hub to a language model, as Markdown."""
    return _read(FOR_MODELS)


def _page(topic: str) -> str | None:
    name = topic.strip().lower().removesuffix(".md")
    return _read(name) if name in {page.name for page in pages()} else None


def _read(page: str) -> str:
    return (FOLDER / f"{page}.md").read_text(encoding="utf-8")


def _found(topic: str) -> str | None:
    """Return the section whose heading is the word, else the paragraphs that mention it most; None if none does."""
    word = _plain(topic)
    if not word:
        return None
    everything = [paragraph for page in pages() for paragraph in _paragraphs(page.name)]
    if named := [paragraph for paragraph in everything if _plain(paragraph.heading) == word]:
        return _joined(named)
    whole = re.compile(rf"(?<![\w-]){re.escape(word)}(?:e?s)?(?![\w-])", re.IGNORECASE)
    scores = [_score(word, whole, paragraph) for paragraph in everything]
    best = sorted(range(len(everything)), key=lambda at: -scores[at])[:MOST]
    chosen = [everything[at] for at in sorted(best, key=lambda at: (-(scores[at] // DEFINES), at)) if scores[at]]
    if not chosen:
        return None
    others = [
        paragraph for score, paragraph in zip(scores, everything, strict=True) if score and paragraph not in chosen
    ]
    if others:
        where = ", ".join(f"hub manual {name}" for name in dict.fromkeys(paragraph.page for paragraph in others))
        output.note(f"{output.plural(len(others), 'more paragraph')} with {shown(topic)} in: {where}")
    return _joined(chosen)


def _score(word: str, whole: re.Pattern[str], paragraph: Paragraph) -> int:
    """Return the score of a paragraph for a word: its mentions, and more if its heading or first cell has the word."""
    mentions = len(whole.findall(paragraph.text))
    if not mentions:
        return 0
    defines = word in _first_cell(paragraph.text)
    definition = (2 if paragraph.page == GLOSSARY else 1) * DEFINES if defines else 0
    return mentions + (3 if whole.search(paragraph.heading) else 0) + definition


def _paragraphs(page: str) -> Iterator[Paragraph]:
    heading, lines, is_code, head = page, list[str](), False, ""
    for line in (*_read(page).splitlines(), ""):
        is_code ^= line.startswith("```")
        starts = not is_code and (not line.strip() or line.startswith(("#", "- ", "|")) or re.match(r"\d+\. ", line))
        if starts and lines:
            yield Paragraph(page, heading, head + "\n".join(lines))
            lines = []
        if not line.startswith("|"):
            head = ""
        if not is_code and (title := _HEADING.fullmatch(line)):
            heading = title[1]
        elif line.startswith("|") and not is_code and head.count("\n") != 2:
            head += f"{line}\n"  # the two lines at the top of a table, which are put above each row
        elif line.strip() or is_code:
            lines.append(line)


def _first_cell(text: str) -> list[str]:
    """Return the words in the first cell of a table row, separated by commas; none for another paragraph."""
    row = text.rpartition("\n")[2]
    return [_plain(name) for name in row.split("|")[1].split(",")] if row.startswith("| ") else []


def _plain(text: str) -> str:
    return text.strip().strip("`*").strip().lower()


def _joined(paragraphs: Sequence[Paragraph]) -> str:
    """Return paragraphs as Markdown, each heading once above its paragraphs."""
    parts, above = list[str](), ("", "")
    for paragraph in paragraphs:
        if (place := (paragraph.page, paragraph.heading)) != above:
            parts.append(f"## {paragraph.page}: {paragraph.heading}")
        above = place
        parts.append(paragraph.text)
    return "\n\n".join(parts) + "\n"


def _unknown(topic: str) -> str:
    names = [page.name for page in pages()]
    known = {_plain(paragraph.heading): paragraph.heading for name in names for paragraph in _paragraphs(name)}
    known |= {word: word for paragraph in _paragraphs(GLOSSARY) for word in _first_cell(paragraph.text)}
    known |= {name: name for name in names}
    near = difflib.get_close_matches(_plain(topic), known, n=1, cutoff=0.7)
    hint = f"; did you mean {known[near[0]]}?" if near else "."
    return f"The manual says nothing of {shown(topic)}{hint} Its pages are {', '.join(names)}."
