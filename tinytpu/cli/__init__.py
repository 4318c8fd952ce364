"""The command line `tinytpu`. Commands import what they need when they run, so that `--help` stays quick."""
from __future__ import annotations

import sys

from . import hardware, models, profile, programs, run
from .common import Exit, UsageError, app, errors, say, settings

__all__ = ["app", "hardware", "main", "models", "profile", "programs", "run"]


def main() -> None:
  """Entry point: runs the command; an error becomes one line on standard error and exit code 1, or 2 if it lies in the options,
  or a traceback with --debug."""
  if hasattr(sys.stdout, "reconfigure"):
    sys.stdout.reconfigure(errors="backslashreplace")  # as standard error does what the terminal cannot show
  try:
    app()
  except Exception as error:
    if settings.debug:
      raise
    known = str(error) if isinstance(error, (ValueError, OSError, RuntimeError)) and str(error) else f"{type(error).__name__}: {error}"
    say("error: ", "bold red", end="", to=errors)
    say(known, to=errors)
    say(f"traceback: tinytpu --debug {' '.join(sys.argv[1:])}", "dim", to=errors)
    sys.exit(Exit.USAGE if isinstance(error, UsageError) else Exit.ERROR)
