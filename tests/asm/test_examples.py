"""The examples of the pages do what the pages say."""
from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tinytpu.asm import TasmError, assemble
from tinytpu.config import preset
from tinytpu.machine import open_engine

ROOT = Path(__file__).parents[2]


def blocks(page: str) -> list[str]:
  """Fenced blocks of a page."""
  return re.findall(r"^```\w*\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


def launch(text: str, hbm: dict[int, np.ndarray], args: tuple[int, ...] = ()) -> np.ndarray:
  """Memory after a launch that must end without fault; the program lies at 1 MiB."""
  engine = open_engine(preset("4x4", hbm_bytes=1 << 21))
  for address, data in hbm.items():
    engine.hbm[address:address + data.nbytes] = data.view(np.uint8)
  code = np.frombuffer(assemble(text).code_bytes(), np.uint8)
  engine.hbm[1 << 20:(1 << 20) + len(code)] = code
  result = engine.launch(1 << 20, args, invalidate=True)
  assert result.fault is None
  return engine.hbm


def test_scale_of_the_assembly_page() -> None:
  data = np.arange(64, dtype=np.float32)
  hbm = launch(blocks("docs/asm.md")[0], {256: data}, (256, 3))
  expected = np.where(np.arange(64) < 48, data / 2, data)
  assert hbm[256:512].view(np.float32).tolist() == expected.tolist()


def test_add_of_the_command_line() -> None:
  """The program; what `run` says of it is tested with the command."""
  block = next(b for b in blocks("docs/cli.md") if b.startswith("$ cat add.tasm"))
  text = block.split("\n$ ")[0].partition("\n")[2]
  assert launch(text, {})[256:320].view(np.uint32).tolist() == list(range(100, 116))


def test_error_of_the_assembly_page() -> None:
  block = next(b for b in blocks("docs/asm.md") if b.startswith("add.tasm:3:"))
  with pytest.raises(TasmError) as caught:
    assemble("\n\n" + block.splitlines()[1][2:], file="add.tasm")
  assert str(caught.value) == block.rstrip()


def test_operand_examples_of_the_assembly_page() -> None:
  section = (ROOT / "docs/asm.md").read_text().split("## Memory operands")[1]
  examples = re.findall(r"^\| `(.*?)` \|", section, re.MULTILINE)
  assert len(examples) == 7
  for example in examples:
    assert len(assemble(example).words) == 1
