"""The `hub` command: serving, announcing machines, borrowing, looking, mending.

Exit codes: 0 done, 1 refused or failed (one sentence on stderr), 2 wrong usage. A command that was run under a slot or
an agent (`-- COMMAND`) decides with its own exit code.
"""

from hub.cli.ending import main

__all__ = ["main"]
