"""The `hub` command: serving, announcing machines, borrowing, looking, repairing.

Exit codes: 0 done, 1 refused or failed (one sentence on stderr), 2 wrong usage. A command that was run under a slot or
an agent (`-- COMMAND`) decides with its own exit code.
"""

import sys

# The command that httpx comes with would be imported with it: 20 ms of every command, for nothing. `None` is to httpx
# as if that command's packages were not installed.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]

try:
    from hub.cli.main_program import main
except ModuleNotFoundError as error:
    if str(error.name).split(".")[0] == "hub":
        raise
    sentence = f"The command hub needs {error.name}, which is not installed; run: pip install capacity-hub."
    raise SystemExit(f"{sentence} Without it, `python -m hub.client` announces a machine.") from None

__all__ = ["main"]
