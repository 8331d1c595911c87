"""`python -m hub.api.contract` writes the contract into its file; with `--check` it only says what has changed.

What would break clients is refused, unless `--break` says that it is meant.
"""

from __future__ import annotations

import json
import sys

from hub.api.contract.changes import breaks
from hub.api.contract.file import FILE, written


def main(*said: str) -> int:
    """The exit code: 1 for what is refused."""
    new = written()
    text = json.dumps(new, indent=1, ensure_ascii=False) + "\n"
    before = FILE.read_text()
    broken = [] if "--break" in said else breaks(json.loads(before), new)
    for sentence in broken:
        sys.stderr.write(f"The contract breaks its clients: {sentence}\n")
    if broken:
        sys.stderr.write("Keep it as it was, or run `make contract BREAK=--break` and tell the changelog.\n")
        return 1
    if "--check" in said and before != text:
        sys.stderr.write(
            "The code has more to say than the contract: run `make contract` and look at the difference.\n"
        )
        return 1
    if "--check" not in said:
        FILE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
