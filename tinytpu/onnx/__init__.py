"""ONNX models on the device, compared with onnxruntime. Needs the extra `onnx`; docs/models.md tells how it is used.

    from tinytpu.onnx import run
    result = run("model.onnx", {"x": x})     # with DEV=TINYTPU
    result.outputs["y"], result.within, result.cycles
"""
from __future__ import annotations

from .compare import BUDGETS, Comparison
from .errors import OnnxError, RefusedError
from .execute import Result, run
from .model import Model, load

__all__ = ["BUDGETS", "Comparison", "Model", "OnnxError", "RefusedError", "Result", "load", "run"]
