"""The `hub` command: serving, announcing machines, borrowing, looking, repairing.

Exit codes: 0 done, 1 refused or failed (one sentence on stderr), 2 wrong usage. A command that was run under a slot or
an agent (`-- COMMAND`) decides with its own exit code.
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
