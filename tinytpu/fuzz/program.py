"""Random programs as trees that can be cut down: straight-line groups, and blocks that a branch or loop governs."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..isa.instruction import Instr, Label, Raw, pack

Op = Instr | Raw


@dataclass(frozen=True)
class Group:
  """One issue group. `pinned` groups keep the program within the contract (waits before memory changes hands) and stay."""
  ops: tuple[Op, ...]
  pinned: bool = False


@dataclass(frozen=True)
class Block:
  """Groups between a head and a tail. One of them holds a control operation whose target is `label`, which lies behind the tail,
  or before the body if `backward`."""
  head: Group
  body: tuple[Item, ...]
  tail: Group | None
  label: str
  backward: bool = False


Item = Group | Block


@dataclass(frozen=True)
class Tree:
  """A program: items in order. `entry` is the word to start from."""
  items: tuple[Item, ...]
  entry: int = field(default=0)

  def words(self) -> np.ndarray:
    """The packed program, uint64."""
    return pack(list(flatten(self.items)))


def flatten(items: Sequence[Item]) -> Iterator[tuple[Op, ...] | Label]:
  """Items as `isa.instruction.pack` takes them."""
  for item in items:
    if isinstance(item, Group):
      yield item.ops
      continue
    yield item.head.ops
    if item.backward:
      yield Label(item.label)
    yield from flatten(item.body)
    if item.tail:
      yield item.tail.ops
    if not item.backward:
      yield Label(item.label)


def size(items: Sequence[Item]) -> int:
  """Operations in the items."""
  return sum(len(g) for g in flatten(items) if not isinstance(g, Label))
