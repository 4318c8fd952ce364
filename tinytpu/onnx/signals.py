"""Operators on signals: DFT, STFT, MelWeightMatrix. tinygrad's front end has none of them. A transform is a product with its matrix, which
is made on the device."""
from __future__ import annotations

import math
from typing import Any

from tinygrad import Tensor, dtypes
from tinygrad.nn.onnx import onnx_ops

_LONGEST = 46_340
"""Points of a transform: the largest number whose square is an int32."""


def _number(value: Tensor | None, default: int = 0) -> int:
  return default if value is None else int(value.reshape(()).item())


def _transform(real: Tensor, imaginary: Tensor | None, points: int, inverse: bool, onesided: bool) -> Tensor:
  """The discrete Fourier transform of the last axis: (..., n) to (..., points or points // 2 + 1, 2). What is longer than `points` is cut
  off, what is shorter filled with zeros."""
  if points > _LONGEST:
    raise NotImplementedError(f"a transform of {points} points; at most {_LONGEST}")
  bins, n = points // 2 + 1 if onesided else points, min(points, int(real.shape[-1]))
  turns = 4 * ((Tensor.arange(n).reshape(-1, 1) * Tensor.arange(bins).reshape(1, -1)) % points)  # in 1 / (4 points)
  quarter, angle = turns // points, (turns % points).cast(dtypes.float32) * (math.pi / 2 / points)  # so that zeros and ones are exact
  along, across = (quarter % 2 == 0).where(angle.cos(), angle.sin()), (quarter % 2 == 0).where(angle.sin(), angle.cos())
  cosine = ((quarter == 1) | (quarter == 2)).where(-along, along).cast(real.dtype).contiguous()
  sine = ((quarter < 2) if inverse else (quarter >= 2)).where(across, -across).cast(real.dtype).contiguous()
  real = real[..., :n]
  a, b = real @ cosine, real @ sine
  if imaginary is not None:
    imaginary = imaginary[..., :n]
    a, b = a - imaginary @ sine, b + imaginary @ cosine
  result = Tensor.stack(a, b, dim=-1)
  return result / points if inverse else result


def _dft(x: Tensor, points: Tensor | None, axis: int, inverse: int, onesided: int) -> Tensor:
  if inverse and onesided:
    raise NotImplementedError("an inverse transform of one side")
  axis = x._resolve_dim(axis)
  if axis == x.ndim - 1:
    raise ValueError(f"axis {axis} is that of real and imaginary part")
  parts = x.transpose(axis, x.ndim - 2)
  imaginary = parts[..., 1] if x.shape[-1] == 2 else None
  length = _number(points, int(x.shape[axis]))
  return _transform(parts[..., 0], imaginary, length, bool(inverse), bool(onesided)).transpose(axis, x.ndim - 2)


def DFT(input: Tensor, dft_length: Tensor | None = None, axis: Tensor | None = None, *, inverse: int = 0, onesided: int = 0) -> Tensor:
  """ONNX's DFT from version 20 on. input: real (last axis of 1) or complex (of 2).

  Raises:
    NotImplementedError: the inverse of one side; more points than the matrix's angles are exact for.
  """
  return _dft(input, dft_length, _number(axis, -2), inverse, onesided)


def DFT_17(input: Tensor, dft_length: Tensor | None = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0) -> Tensor:
  """ONNX's DFT before version 20, with the axis as an attribute. Otherwise as `DFT`."""
  return _dft(input, dft_length, axis, inverse, onesided)


def STFT(signal: Tensor, frame_step: Tensor, window: Tensor | None = None, frame_length: Tensor | None = None, *,
         onesided: int = 1) -> Tensor:
  """ONNX's STFT. signal: (batch, n), (batch, n, 1) or, complex, (batch, n, 2); gives (batch, frames, bins, 2)."""
  length = _number(frame_length, int(window.shape[0]) if window is not None else 0)
  if not length:
    raise ValueError("neither a window nor a frame length")
  parts = signal.unsqueeze(-1) if signal.ndim == 2 else signal
  frames = [parts[..., i].unfold(1, length, _number(frame_step)) for i in range(int(parts.shape[-1]))]
  if window is not None:
    frames = [frame * window for frame in frames]
  return _transform(frames[0], frames[1] if len(frames) == 2 else None, length, False, bool(onesided))


def MelWeightMatrix(num_mel_bins: Tensor, dft_length: Tensor, sample_rate: Tensor, lower_edge_hertz: Tensor, upper_edge_hertz: Tensor, *,
                    output_datatype: int = 1) -> Tensor:
  """ONNX's MelWeightMatrix: (dft_length // 2 + 1, num_mel_bins), a triangle over frequencies for each bin."""
  bins, points = _number(num_mel_bins), _number(dft_length)

  def mel(hertz: Tensor) -> Tensor:
    return (hertz.reshape(()).float() / 700 + 1).log2() * (2595 * math.log10(2))
  low, high = mel(lower_edge_hertz), mel(upper_edge_hertz)
  edges = Tensor.arange(bins + 2) * ((high - low) / (bins + 2)) + low
  hertz = (((edges / (2595 * math.log10(2))).exp2() - 1) * 700)
  at = ((points + 1) * hertz / sample_rate.reshape(()).float()).floor()
  row = Tensor.arange(points // 2 + 1).reshape(-1, 1)
  first, middle, last = (at[i:i + bins].reshape(1, -1) for i in range(3))
  rising = ((row >= first) & (row <= middle)).where((row - first) / (middle - first).maximum(1), 0)
  falling = ((row > middle) & (row < last)).where((last - row) / (last - middle).maximum(1), 0)
  cast: Any = onnx_ops["Cast"]
  return cast((row == middle).where(1.0, rising + falling), output_datatype)
