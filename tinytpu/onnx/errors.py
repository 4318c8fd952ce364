"""The errors of `tinytpu onnx`: one sentence each, on one line, whatever names are in the file."""
from __future__ import annotations


def _line(message: str) -> str:
  return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message)


class OnnxError(ValueError):
  """A file, an input or an option that cannot be used. Nothing has run yet."""

  def __init__(self, message: str):
    super().__init__(_line(message))


class RefusedError(RuntimeError):
  """An operator or kernel that tinygrad's front end or the device's compiler refuses; names it and says why."""

  def __init__(self, message: str):
    super().__init__(_line(message))
