"""`python -m hub.api.publish` writes the contract into its two files; with `--check` it only reports that they would
change.

A change that would break clients is refused, unless `--break` is given.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

from hub.api import contract
from hub.api.app import routes
from hub.api.contract import asyncapi
from hub.api.contract.changes import breaks
from hub.api.contract.document import document

FILE: Final = Path(contract.__file__).with_name("openapi.json")
SPOKEN: Final = FILE.with_name("asyncapi.json")


def written() -> dict[Path, dict[str, Any]]:
    """Return the contract as the code declares it now: the two documents by the path of their file."""
    return {FILE: document(routes()), SPOKEN: asyncapi.document()}


def main(*said: str, folder: Path | None = None) -> int:
    """Write the contract's files, in `folder` or where the hub serves them from. Return the exit code: 1 for a change
    that is refused, and for a file that differs with `--check`."""
    texts, broken = {}, []
    for file, new in written().items():
        file = file if folder is None else folder / file.name
        texts[file] = json.dumps(new, indent=1, ensure_ascii=False) + "\n"
        if file.exists() and "--break" not in said:
            broken += breaks(json.loads(file.read_text()), new)
    for sentence in broken:
        sys.stderr.write(f"The contract breaks its clients: {sentence}\n")
    if broken:
        sys.stderr.write("Keep it as it was, or run `make contract BREAK=--break` and tell the changelog.\n")
        return 1
    other = [file for file, text in texts.items() if not file.exists() or file.read_text() != text]
    if "--check" in said and other:
        sys.stderr.write(
            "The code has more to say than the contract: run `make contract` and look at what that changes.\n"
        )
        return 1
    for file in other:
        file.write_text(texts[file])
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
