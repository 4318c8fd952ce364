"""The one error that the compiler raises for what it cannot lower."""
from __future__ import annotations

from tinygrad.device import CompileError


class UnsupportedError(CompileError):
  """A kernel that cannot be lowered; the message names UOp, dtype and kernel. BEAM takes it as a failed candidate."""
