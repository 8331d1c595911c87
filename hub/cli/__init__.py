"""The `hub` command: it serves a hub, announces machines, borrows slots, shows and repairs.

Exit codes: 0 done, 1 refused or failed (one sentence on stderr), 2 wrong usage. `hub borrow` and `hub agent` with
`-- COMMAND` end with the exit code of COMMAND.
"""

try:
    from hub.cli.libraries import leave_out_httpx_command

    leave_out_httpx_command()
    from hub.cli.main_program import main
except ModuleNotFoundError as error:
    if str(error.name).split(".")[0] == "hub":
        raise
    sentence = f"The command hub needs {error.name}, which is not installed; run: pip install capacity-hub."
    raise SystemExit(f"{sentence} Without it, `python -m hub.client` announces a machine.") from None

__all__ = ["main"]
