"""The main program: it runs a command and returns its exit code; a refusal is printed as one sentence."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Sequence

import typer

from hub.cli import global_options, output
from hub.cli.app import app
from hub.cli.inputs import InputEnded, Usage
from hub.cli.libraries import UsageError
from hub.errors import HubError, Unauthorized

DONE, REFUSED, WRONG_USAGE = 0, 1, 2


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line `words` (None: that of the process) and return the exit code; print refusals on stderr."""
    output.begin()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # characters that the terminal cannot show are escaped
    words = sys.argv[1:] if words is None else words
    if "_HUB_COMPLETE" in os.environ:
        from hub.cli import completing

        words = completing.begin()
    try:
        return _run(global_options.begin(words))
    except output.ReaderGone:
        return DONE
    except output.Unwritable as error:
        return _end(str(error), REFUSED)
    finally:
        for stream in (sys.stdout, sys.stderr):  # here, because a failed flush at exit would change the exit code
            try:
                stream.flush()
            except OSError:
                output.discard(stream)


def _run(words: Sequence[str]) -> int:
    try:
        result = typer.main.get_command(app).main(words, prog_name="hub", standalone_mode=False)
    except (output.ReaderGone, output.Unwritable):
        raise
    except Usage as error:
        return _end(str(error), WRONG_USAGE, below=error.below)
    except UsageError as error:
        return _end(_usage_sentence(error), WRONG_USAGE)
    except Unauthorized as error:
        from hub.cli.connection import secret_refused  # already imported by the command

        return _end(secret_refused(error), REFUSED, error)
    except InputEnded as error:
        return _end(str(error), error.code, error.__context__ if isinstance(error.__context__, Exception) else None)
    except HubError as error:
        return _end(error.detail or error.code, REFUSED, error)
    except ModuleNotFoundError as error:  # from the import of the command's module
        if str(error.name).startswith("hub."):
            raise
        return _end(f"The command needs {error.name}, which is not installed; run: pip install capacity-hub", REFUSED)
    except OSError as error:
        return _end(str(error), REFUSED)
    except Exception as error:  # noqa: BLE001 - a bug: people get a sentence, not a traceback
        if os.environ.get("LOG_LEVEL", "").upper() == "DEBUG":
            traceback.print_exc()
        return _end(f"A fault of this program, {type(error).__name__}: {error}; LOG_LEVEL=DEBUG shows where.", REFUSED)
    return result if isinstance(result, int) else DONE


def _usage_sentence(error: Exception) -> str:
    message = " ".join(error.format_message().split()) if hasattr(error, "format_message") else str(error)
    message = re.sub("is not a valid int(eger)?( range)?", "is not a whole number", message)
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "hub"
    return f"{message.rstrip('.')}; see `{path} --help`."


def _end(sentence: str, code: int, error: Exception | None = None, below: str = "") -> int:
    sentence = sentence if sentence.endswith((".", "?", "!")) else f"{sentence}."
    if global_options.is_given(global_options.JSON):
        refusal = error if isinstance(error, HubError) else None
        output.put_problem(refusal.code if refusal else "usage" if code == WRONG_USAGE else "failed", sentence, code)
    else:
        output.note(sentence)
        for line in below.splitlines():
            output.tell(f"  {output.one_line(line)}")
    return code
