"""DFT, STFT and MelWeightMatrix against onnxruntime and numpy."""
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.onnx.models import one
from tinytpu.onnx import RefusedError, run

Agrees = Callable[..., None]
Saved = Callable[..., Path]
Floats = Callable[..., np.ndarray]


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("inverse, onesided", [(0, 0), (1, 0), (0, 1)])
@pytest.mark.parametrize("points", [None, 4, 15])
def test_dft(agrees: Agrees, floats: Floats, parts: int, inverse: int, onesided: int, points: int | None) -> None:
  """As long as it is, cut off, filled up."""
  if onesided and parts == 2:
    parts = 1  # of complex signals there is no one side
  length = None if points is None else np.array(points)
  agrees(*one("DFT", [floats(2, 9, 3, parts), length], version=17, constants=(1,), axis=1, inverse=inverse, onesided=onesided))


def test_the_axis_may_be_an_input(agrees: Agrees, floats: Floats) -> None:
  agrees(*one("DFT", [floats(2, 5, 3, 2), None, np.array(-3)], version=20, constants=(2,)))
  agrees(*one("DFT", [floats(2, 5, 3, 2)], version=20))


def test_a_long_transform_is_exact(saved: Saved, floats: Floats) -> None:
  """Angles are made of whole turns' remainders, so that the last bin is as good as the first."""
  x = floats(1, 1000, 1)
  got = run(saved(one("DFT", [x], axis=1)[0]), {"x0": x}, budgets={"": 1e-3}).outputs["y0"]
  expected = np.fft.fft(x[0, :, 0].astype(np.float64))
  np.testing.assert_allclose(got[0, :, 0] + 1j * got[0, :, 1], expected, atol=2e-6 * np.abs(expected).max())


def test_transforms_that_are_refused(saved: Saved, floats: Floats) -> None:
  for options, message in (({"inverse": 1, "onesided": 1}, "an inverse transform of one side|onnxruntime cannot run"),
                           ({"axis": 2}, "axis 2 is that of real and imaginary part|onnxruntime cannot run")):
    proto, inputs = one("DFT", [floats(1, 4, 1)], **options)
    with pytest.raises((RefusedError, ValueError), match=message):
      run(saved(proto), inputs)
  from tinygrad import Tensor

  from tinytpu.onnx.signals import DFT
  with pytest.raises(NotImplementedError, match="a transform of 46341 points; at most 46340"):
    DFT(Tensor.zeros(1, 2, 1), Tensor(46341))


@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize("windowed", [False, True])
def test_stft(agrees: Agrees, floats: Floats, onesided: int, windowed: bool) -> None:
  window, length = (np.hanning(8).astype(np.float32), None) if windowed else (None, np.array(8))
  agrees(*one("STFT", [floats(2, 30, 1), np.array(3), window, length], constants=(1, 3), onesided=onesided))


@pytest.mark.parametrize("bins, points, rate, low, high", [(8, 16, 8192, 0, 4096), (40, 400, 16000, 20, 8000), (3, 64, 100, 1, 50)])
def test_mel_weights(agrees: Agrees, bins: int, points: int, rate: int, low: float, high: float) -> None:
  arrays = [np.array(bins), np.array(points), np.array(rate), np.float32(low), np.float32(high)]
  agrees(*one("MelWeightMatrix", arrays, constants=(0, 1, 2)))
