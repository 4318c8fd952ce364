"""What the models are run on: a synthetic voice, drawn text, a photograph, bytes of files, words."""
from __future__ import annotations

import math

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from .weights import file

RATE = 16_000
"""Samples of sound a second."""
_VOWELS = {"a": (730, 1090, 2440), "i": (270, 2290, 3010), "o": (570, 840, 2410), "e": (530, 1840, 2480)}
"""Resonances of the mouth, in Hz (Peterson and Barney, 1952)."""
_WIDTHS = (80, 100, 150)
"""Their bandwidths, in Hz."""


def voice(vowels: str, pitch: float = 100, seconds: float = 0.16) -> np.ndarray:
  """Vowels spoken one after the other: pulses, falling in pitch, through three resonators that glide to the next vowel.

  Args:
    pitch: in Hz, at the end. seconds: of each vowel.

  Returns:
    float32 samples, the loudest of magnitude 0.3.
  """
  each = int(RATE * seconds)
  goals = np.array([_VOWELS[v] for v in vowels], float)
  centres, delayed, before = goals[0].copy(), np.zeros(3), np.zeros(3)
  breath, phase, sound = np.random.default_rng(0), 0.0, np.zeros(each * len(vowels))
  for i in range(sound.size):
    centres += (goals[i // each] - centres) * 0.002
    loudness = math.sqrt(math.sin(math.pi * (i % each) / each))
    phase += pitch * (1.25 - 0.25 * i / sound.size) / RATE
    sample, phase = loudness * ((phase >= 1) + 0.01 * breath.standard_normal()), phase % 1
    for k, width in enumerate(_WIDTHS):
      r = math.exp(-math.pi * width / RATE)
      near, far = 2 * r * math.cos(2 * math.pi * centres[k] / RATE), -r * r
      sample = sample * (1 - near - far) + near * delayed[k] + far * before[k]
      before[k], delayed[k] = delayed[k], sample
    sound[i] = sample
  return (0.3 * sound / np.abs(sound).max()).astype(np.float32)


def noise(samples: int) -> np.ndarray:
  """White noise of standard deviation 0.1, float32."""
  return (0.1 * np.random.default_rng(0).standard_normal(samples)).astype(np.float32)


def drawn(text: str, size: int, margin: int) -> Image.Image:
  """Black text on white, in the font that Pillow brings, with a margin around its ink; all in pixels."""
  font = ImageFont.load_default(size)
  left, top, right, bottom = map(int, font.getbbox(text))
  image = Image.new("RGB", (right - left + 2 * margin, bottom - top + 2 * margin), "white")
  ImageDraw.Draw(image).text((margin - left, margin - top), text, fill="black", font=font)
  return image


FACE = (173, 75, 273, 187)
"""Left, top, right and bottom of the face in the photograph."""
ELSEWHERE = (60, 380, 160, 492)
"""A part of the photograph without a face."""


def photograph() -> Image.Image:
  """Eileen Collins, 512 x 512 (NASA; public domain)."""
  return Image.open(file("skimage/data/astronaut.png")).convert("RGB")


VOCABULARY = {"[CLS]": 101, "[SEP]": 102, "a": 1037, "man": 2158, "plays": 3248, "the": 1996, "guitar": 2858, "someone": 2619, "is": 2003,
              "making": 2437, "music": 2189, "stock": 4518, "market": 3006, "fell": 3062, "today": 2651}
"""The words used here with their numbers in the vocabulary of bert-base-uncased, which MiniLM uses."""


def tokens(sentence: str) -> np.ndarray:
  """int64[1, n]: the numbers of a sentence's words between those of start and end. Raises KeyError: a word is not in VOCABULARY."""
  return np.array([[VOCABULARY[word] for word in ("[CLS]", *sentence.split(), "[SEP]")]])


def ends(data: bytes) -> np.ndarray:
  """int32[1, 2048], as magika takes a file: its first and its last 1,024 bytes without blanks around, 256 where there are none."""
  block, each, none = 4096, 1024, 256
  first, last = data[:block].lstrip()[:each], data[-block:].rstrip()[-each:]
  return np.array([[*first, *[none] * (each - len(first)), *[none] * (each - len(last)), *last]], np.int32)
