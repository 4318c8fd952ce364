"""Images as inputs: layouts, sizes, numbers, and what is refused."""
from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from PIL import Image
from typer.testing import CliRunner

from tests.onnx.models import FLOAT, model, value
from tests.onnx.test_bad_input import refused
from tinytpu.cli import app
from tinytpu.onnx.images import SUFFIXES, Fit, Pixels, array, layout
from tinytpu.onnx.model import Value

Saved = Callable[..., Path]
Photo = tuple[Path, np.ndarray]
"""The file and its pixels."""
DTYPES = {"float32": FLOAT, "float16": TensorProto.FLOAT16, "uint8": TensorProto.UINT8, "int32": TensorProto.INT32}


def identity(shape: list, dtype: str = "float32"):  # type: ignore[no-untyped-def]
  return model([helper.make_node("Identity", ["x"], ["y"])], [value("x", shape, DTYPES[dtype])], [value("y", None, DTYPES[dtype])])


@pytest.fixture
def photo(tmp_path: Path) -> Photo:
  """4 rows of 6 pixels, each other than all others in each channel; saved without loss."""
  pixels = np.random.default_rng(0).permutation(72).reshape(4, 6, 3).astype(np.uint8) * 3
  Image.fromarray(pixels).save(tmp_path / "photo.png")
  return tmp_path / "photo.png", pixels


def given(path: Path, *options: object, tmp_path: Path) -> np.ndarray:
  """What the model of one identity got on the device."""
  result = CliRunner().invoke(app, ["onnx", str(path), *map(str, options), "--save", str(tmp_path / "y.npz")])
  assert result.exit_code == 0, f"{result.output}\n{result.exception!r}"
  return np.load(tmp_path / "y.npz")["y"]


CHW, HWC = (2, 0, 1), (0, 1, 2)


@pytest.mark.parametrize("shape, axes", [([1, 3, 4, 6], CHW), ([3, 4, 6], CHW), ([1, 4, 6, 3], HWC), ([4, 6, 3], HWC),
                                         (["n", 3, "h", "w"], CHW), (["n", "h", "w", 3], HWC), ([1, 3, 4, "w"], CHW)])
def test_layout_is_that_of_the_declared_shape(saved: Saved, photo: Photo, tmp_path: Path, shape: list, axes: tuple) -> None:
  path, pixels = photo
  got = given(saved(identity(shape)), "-i", f"x={path}", tmp_path=tmp_path)
  assert got.ndim == len(shape) and got.dtype == np.float32
  np.testing.assert_allclose(got.reshape(got.shape[-3:]), pixels.transpose(axes) / 255, atol=1e-6)


def test_numbers_are_normalised_by_channel(saved: Saved, photo: Photo, tmp_path: Path) -> None:
  path, pixels = photo
  model_path = saved(identity([1, 4, 6, 3]))
  got = given(model_path, "-i", path, "--mean", "0.1,0.2,0.3", "--std", "0.5,1,2", "--bgr", tmp_path=tmp_path)
  np.testing.assert_allclose(got[0], (pixels[..., ::-1] / 255 - [0.1, 0.2, 0.3]) / [0.5, 1, 2], atol=1e-6)
  got = given(model_path, "-i", path, "--mean", "0.5", "--std", "0.25", tmp_path=tmp_path)
  np.testing.assert_allclose(got[0], (pixels / 255 - 0.5) / 0.25, atol=1e-6)


@pytest.mark.parametrize("dtype", ["uint8", "float16"])
def test_dtypes(saved: Saved, photo: Photo, tmp_path: Path, dtype: str) -> None:
  path, pixels = photo
  got = given(saved(identity([1, 4, 6, 3], dtype)), "-i", path, tmp_path=tmp_path)
  assert got.dtype == dtype
  np.testing.assert_array_equal(got[0], pixels if dtype == "uint8" else (pixels / 255).astype(np.float16))


def test_grey(saved: Saved, photo: Photo, tmp_path: Path) -> None:
  path, pixels = photo
  got = given(saved(identity([1, 1, 4, 6])), "-i", path, tmp_path=tmp_path)
  np.testing.assert_allclose(got[0, 0] * 255, pixels @ [0.299, 0.587, 0.114], atol=1)  # ITU-R 601


def test_a_free_size_can_be_chosen(saved: Saved, photo: Photo, tmp_path: Path) -> None:
  got = given(saved(identity([1, 3, "h", "w"])), "-i", photo[0], "--dim", "h=8", tmp_path=tmp_path)
  assert got.shape == (1, 3, 8, 6)


def test_fitting() -> None:
  """An image twice as wide as high: left half red, right half blue. To a square it is squeezed, cut off or set into black."""
  pixels = np.zeros((16, 32, 3), np.uint8)
  pixels[:, :16, 0] = pixels[:, 16:, 2] = 255
  image, square = Image.fromarray(pixels), Value("x", "uint8", (8, 8, 3))
  red, blue, black = [255, 0, 0], [0, 0, 255], [0, 0, 0]
  for fit in Fit:
    got = array(image, square, {}, Pixels(fit)).tolist()
    assert got[4][0] == red and got[4][7] == blue
    assert [got[0][0], got[7][7]] == ([black, black] if fit is Fit.PAD else [red, blue])
  pixels[:, :8] = 255  # what is cut off of both sides
  assert array(Image.fromarray(pixels), square, {}, Pixels(Fit.CROP)).tolist()[4][1] == red
  assert array(Image.fromarray(pixels), square, {}, Pixels(Fit.STRETCH)).tolist()[4][0] == [255, 255, 255]


def test_photographs_are_turned_upright(saved: Saved, tmp_path: Path) -> None:
  """Cameras note how they were held."""
  pixels = np.zeros((4, 6, 3), np.uint8)
  pixels[0, 0] = 255
  exif = Image.Exif()
  exif[0x0112] = 6  # the top is on the right
  Image.fromarray(pixels).save(tmp_path / "turned.png", exif=exif)
  got = given(saved(identity(["h", "w", 3])), "-i", tmp_path / "turned.png", tmp_path=tmp_path)
  assert got.shape == (6, 4, 3) and got[0, 3, 0] == 1 and got.sum() == 3


@pytest.mark.parametrize("shape", [(2, 3, 4, 4), (8,), (4, 4), None, (1, 3, 4, 3), (1, "c", 4, 4), (1, 4, 4, 4), (1, 1, 3, 4, 4)])
def test_inputs_that_are_no_image(shape: tuple | None) -> None:
  from tinytpu.onnx import OnnxError
  with pytest.raises(OnnxError, match="cannot be one image|which axis is of channels"):
    layout(Value("x", "float32", shape))


def test_what_is_refused(saved: Saved, photo: Photo, tmp_path: Path) -> None:
  path, whole = photo[0], photo[0].read_bytes()
  picture = saved(identity([1, 3, 4, 6]))
  (tmp_path / "text.png").write_text("no image")
  assert "text.png is no image that Pillow reads" in refused(picture, "-i", tmp_path / "text.png")
  (tmp_path / "short.png").write_bytes(whole[:len(whole) // 2])
  assert "short.png cannot be read as an image" in refused(picture, "-i", tmp_path / "short.png")
  Image.fromarray(np.zeros((4, 6), np.uint16)).save(tmp_path / "deep.png")
  assert "has pixels of more than 8 bits (I;16)" in refused(picture, "-i", tmp_path / "deep.png")
  assert "--mean has 2 numbers, and input 'x' has 3 channels" in refused(picture, "-i", path, "--mean", "1,2")
  for option in ("--mean", "--std"):
    for text in ("", "x", "1,,2", "nan", *(("0", "-1") if option == "--std" else ())):
      assert f"{option} {text}: expected" in refused(picture, "-i", path, option, text)
  assert "--fit squash: expected stretch, crop, pad" in refused(picture, "-i", path, "--fit", "squash")
  assert "--fit, --mean, --std and --bgr are of images" in refused(picture, "--bgr")
  assert "the model has no input 'z'; its inputs: x" in refused(picture, "-i", f"z={path}")
  small = saved(identity([1, 3, 4, 6], "uint8"), "small.onnx")
  assert "it takes pixels as they are, without --mean and --std" in refused(small, "-i", path, "--mean", "0.5")
  assert "an image gives floats or uint8" in refused(saved(identity([1, 3, 4, 6], "int32"), "ints.onnx"), "-i", path)
  result = CliRunner().invoke(app, ["onnx", str(picture), "-i", str(tmp_path / "missing.png")])
  assert isinstance(result.exception, FileNotFoundError)


def test_an_image_that_would_fill_the_memory_is_refused(saved: Saved, photo: Photo, monkeypatch: pytest.MonkeyPatch) -> None:
  for pixels in (10, 15):  # 24 are more than these, and more than twice the first
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", pixels)
    message = refused(saved(identity([1, 3, 4, 6])), "-i", photo[0])
    assert "photo.png cannot be read as an image: Image size (24 pixels) exceeds limit" in message


def test_every_suffix_is_one_that_pillow_reads() -> None:
  assert set(SUFFIXES) <= set(Image.registered_extensions())


def test_without_pillow(saved: Saved, photo: Photo, monkeypatch: pytest.MonkeyPatch) -> None:
  path = saved(identity([1, 3, 4, 6]))
  monkeypatch.setitem(sys.modules, "PIL", None)
  result = CliRunner().invoke(app, ["onnx", str(path), "-i", str(photo[0])])
  assert "PIL is missing: pip install 'tinytpu[onnx]'" in str(result.exception)
