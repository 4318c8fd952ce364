"""An encoder of GGUF version 3 in numpy, from the format's description (github.com/ggml-org/ggml/blob/master/docs/gguf.md), and what its
quantised blocks stand for."""
from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

F32, F16, Q4_0, Q8_0 = 0, 1, 2, 8
BLOCK = 32


def q8_0(values: np.ndarray) -> tuple[bytes, np.ndarray]:
  """Blocks of 32: a float16 scale and 32 int8. Returns their bytes, and what they stand for in float32."""
  blocks = values.astype(np.float32).reshape(-1, BLOCK)
  scale = (np.abs(blocks).max(1, keepdims=True) / 127).astype(np.float16)
  quants = np.rint(blocks / np.maximum(scale.astype(np.float32), 1e-8)).clip(-128, 127).astype(np.int8)
  data = b"".join(s.tobytes() + q.tobytes() for s, q in zip(scale, quants, strict=True))
  return data, (scale.astype(np.float32) * quants).reshape(values.shape)


def q4_0(values: np.ndarray) -> tuple[bytes, np.ndarray]:
  """Blocks of 32: a float16 scale and 16 bytes, byte j with element j in its low half and j + 16 in its high half, each offset by 8."""
  blocks = values.astype(np.float32).reshape(-1, BLOCK)
  scale = (np.abs(blocks).max(1, keepdims=True) / 7).astype(np.float16)
  quants = (np.rint(blocks / np.maximum(scale.astype(np.float32), 1e-8)).clip(-8, 7) + 8).astype(np.uint8)
  packed = quants[:, :16] | quants[:, 16:] << 4
  data = b"".join(s.tobytes() + q.tobytes() for s, q in zip(scale, packed, strict=True))
  return data, (scale.astype(np.float32) * (quants.astype(np.float32) - 8)).reshape(values.shape)


def encode(values: np.ndarray, kind: int) -> tuple[bytes, np.ndarray]:
  """Bytes of a tensor, and what they stand for in float32."""
  match kind:
    case 8:
      return q8_0(values)
    case 2:
      return q4_0(values)
  stored = values.astype(np.float16 if kind == F16 else np.float32)
  return stored.tobytes(), stored.astype(np.float32)


def write(path: Path, metadata: dict[str, int | float | str], tensors: dict[str, tuple[np.ndarray, int]]) -> dict[str, np.ndarray]:
  """Write a file; tensors: values and kind by name. Returns what the file's tensors stand for."""
  def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()

  head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
  for key, value in metadata.items():
    head += text(key)
    match value:
      case str():
        head += struct.pack("<I", 8) + text(value)
      case float():
        head += struct.pack("<If", 6, value)
      case _:
        head += struct.pack("<II", 4, value)
  data, meant = b"", {}
  for name, (values, kind) in tensors.items():
    encoded, meant[name] = encode(values, kind)
    head += text(name) + struct.pack(f"<I{values.ndim}QIQ", values.ndim, *reversed(values.shape), kind, len(data))
    data += encoded + bytes(-len(encoded) % 32)
  path.write_bytes(head + bytes(-len(head) % 32) + data)
  return meant
