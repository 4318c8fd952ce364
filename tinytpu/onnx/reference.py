"""The reference: onnxruntime, on the host, without its optimisations."""
from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # its builds send events to their maker, and leave an identifier on the disk

import onnxruntime
from onnx import ModelProto

from .errors import OnnxError
from .model import first_line


def outputs(proto: ModelProto, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
  """What onnxruntime computes: arrays by output name.

  Raises:
    OnnxError: it refuses the model, or fails on these inputs.
  """
  options = onnxruntime.SessionOptions()
  options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
  options.log_severity_level = 4
  options.intra_op_num_threads = 1
  try:
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, map(np.asarray, session.run(names, dict(inputs))), strict=True))
  except Exception as error:  # its classes have no common ancestor of their own
    raise OnnxError(f"onnxruntime cannot run the model on these inputs: {first_line(error)}") from error
