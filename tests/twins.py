"""`python -m tests.twins` writes the clients for threads from those for asyncio; `--check` only says what is stale.

A twin stands at the end of its file, below a line that names its source. It is the text of the source class without
`async` and `await`, and with the names of `NAMES`. Of the docstring of a method it has the first paragraph. A comment
`# threads: CODE` in the source stands for CODE in the twin: at the end of a line in place of that line, alone on a line
as one more. A line that ends with `# asyncio` is left out. Where asyncio and threads behave differently, `TEXTS` has
the words of the twin.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

CLIENT = Path(__file__).parents[1] / "hub" / "client"
TWINS = (
    ("borrower.py", "HubClient", "sync_borrower.py"),
    ("jobs/submitting.py", "JobsClient", "jobs/submitting.py"),
)
MARK = "# Written from the class `{}` by `make twins`: change that class, not this one.\n"
NAMES = {
    r"\b(HubClient|JobsClient|Watch|Wire|Borrowing|Bundle)\b": r"Sync\1",
    r"\bAsyncTransport\b": "SyncTransport",
    r"\bAsyncBaseTransport\b": "BaseTransport",
    r"\bawait asyncio\.to_thread\((.+?), ": r"\1(",
    r"\b__a(enter|exit)__\b": r"__\1__",
    r"\b(async|await) ": "",
}
TEXTS = {
    "for asyncio; made and used inside one event loop, by any number of its tasks.":
        "for programs with threads; any number of them may share one.",
    "for asyncio: `": "for threads: `",
    """The lease is renewed in the background. When it cannot be renewed in time
        or the hub has ended it, the task is cancelled inside the block before the hub can lend the slot again, and the
        `with` raises `LeaseLost`. A block that does not reach an `await` cannot be stopped; it may ask
        `slot.check()`. Leaving gives the slot back.""":
        """A daemon thread renews the lease. When it cannot be renewed in
        time or the hub has ended it, `slot.lost` is set before the hub can lend the slot again, and `on_lost(slot)` is
        called in that thread. Nothing stops the block by itself; it asks `slot.lost` or `slot.check()`. Leaving gives
        the slot back, or raises `LeaseLost`.""",
    "the first that is lost ends the block. L": "`on_lost(slot)` is called for each that is lost. L",
    "None when it was given back. Cancel it to stop.": "None once `stop` is set or it was given back.",
    "Close the connections.\"": "Close the connections, unless they were given.\"",
}  # fmt: skip


def text_of(source: Path, name: str) -> str:
    """Return the text of the twin of a class."""
    text = source.read_text()
    (found,) = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef) and node.name == name]
    lines = text.splitlines(keepends=True)[found.lineno - 1 : found.end_lineno]
    kept = [re.sub(r"^( *).*# threads: (.+)", r"\1\2", line) for line in lines if not line.endswith("# asyncio\n")]
    twin = "".join(kept)
    for pattern, other in NAMES.items():
        twin = re.sub(pattern, other, twin)
    for words, other in TEXTS.items():
        twin = twin.replace(words, other)
    return shortened(twin, name)


def shortened(twin: str, name: str) -> str:
    """Return a twin with the first paragraph of each docstring of a method, unless `TEXTS` has given it own words."""
    for method in ast.walk(ast.parse(twin)):
        text = ast.get_docstring(method, clean=False) if isinstance(method, ast.FunctionDef) else None
        if text and "\n\n" in text and not any(other in text for other in TEXTS.values()):
            first = text.partition("\n\n")[0]
            twin = twin.replace(text, f"{first}\n\n        See `{name}.{method.name}` for the rest.\n        ")
    return twin


def written() -> dict[Path, str]:
    """Return the text that each file of a twin should have."""
    texts = {}
    for source, name, target in TWINS:
        mark = MARK.format(name)
        head = (CLIENT / target).read_text().partition(mark)[0]
        whole = f"{head}{mark}{text_of(CLIENT / source, name)}"
        ruff = [sys.executable, "-m", "ruff", "format", "--quiet", "--stdin-filename", str(CLIENT / target), "-"]
        texts[CLIENT / target] = subprocess.run(ruff, input=whole, capture_output=True, text=True, check=True).stdout
    return texts


def main(*words: str) -> int:
    """Write the files that differ, or name them; the exit code is 1 when `--check` finds one."""
    stale = {file: text for file, text in written().items() if file.read_text() != text}
    if "--check" in words:
        for file in stale:
            sys.stderr.write(f"{file.relative_to(CLIENT.parents[1])} is not what its source says: run `make twins`.\n")
        return 1 if stale else 0
    for file, text in stale.items():
        file.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
