"""The errors of `tinytpu onnx`: one sentence each."""
from __future__ import annotations


class OnnxError(ValueError):
  """A file, an input or an option that cannot be used. Nothing has run yet."""


class RefusedError(RuntimeError):
  """An operator or kernel that tinygrad's front end or the device's compiler refuses; names it and says why."""
