"""Cutting a failing program down to the smallest that still fails."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ..isa.instruction import Instr, Label
from .program import Group, Item, Tree, flatten

_ENDS = ("halt", "trap")
_WAITS = ("fence", "dwaiti", "dwaito", "vld", "barrier")
"""What `generate` puts between phases."""


def shrink(tree: Tree, fails: Callable[[Tree], bool], budget: int = 400) -> Tree:
  """The smallest program found by leaving out items and operations, and replacing blocks by their bodies, as long as it `fails`.

  Args:
    budget: most candidates to try.
  """
  tried = 0
  progress = True
  while progress:
    progress = False
    for candidate in _smaller(tree):
      if tried == budget:
        return tree
      tried += 1
      if fails(candidate):
        tree, progress = candidate, True
        break
  return tree


def _smaller(tree: Tree) -> Iterator[Tree]:
  """Programs a step smaller than `tree`, large steps first."""
  items = tree.items
  needed = _needed(tree)
  run = len(items) // 2
  while run:
    for start in range(0, len(items), run):
      kept = tuple(item for item in items[start:start + run] if item in needed)
      if len(kept) < len(items[start:start + run]):
        yield replace(tree, items=items[:start] + kept + items[start + run:])
    run //= 2
  for i, item in enumerate(items):
    for smaller in _items_for(item):
      yield replace(tree, items=items[:i] + smaller + items[i + 1:])


def _needed(tree: Tree) -> set[Item]:
  """Pinned groups that the contract still asks for: waits while there are transfers or stores to device memory to wait for, and
  whatever writes a register that is read elsewhere."""
  ops = [op for ops in flatten(tree.items) if not isinstance(ops, Label) for op in ops if isinstance(op, Instr)]
  shared = any(op.op.name.startswith(("dmai", "dmao", "hst")) for op in ops)
  needed: set[Item] = set()
  for item in tree.items:
    if isinstance(item, Group) and item.pinned:
      here = [op for op in item.ops if isinstance(op, Instr)]
      if any(op.op.name in _ENDS for op in here):
        keep = True
      elif any(op.op.name in _WAITS for op in here):
        keep = shared
      else:
        keep = any(register in other.reads() for op in here for register in op.writes() for other in ops if other is not op)
      if keep:
        needed.add(item)
  return needed


def _items_for(item: Item) -> Iterator[tuple[Item, ...]]:
  """Smaller replacements of one item."""
  if isinstance(item, Group):
    yield from ((group,) for group in _groups_for(item))
    return
  yield item.body
  for i, inner in enumerate(item.body):
    if not (isinstance(inner, Group) and inner.pinned) and not (item.backward and i == len(item.body) - 1):
      yield (replace(item, body=item.body[:i] + item.body[i + 1:]),)
      for smaller in _items_for(inner):
        yield (replace(item, body=item.body[:i] + smaller + item.body[i + 1:]),)
  yield from ((replace(item, head=head),) for head in _groups_for(item.head))
  if item.tail:
    yield from ((replace(item, tail=tail),) for tail in _groups_for(item.tail))


def _groups_for(group: Group) -> Iterator[Group]:
  """The group without one of its operations; control operations stay, because blocks are built on them."""
  for i, op in enumerate(group.ops):
    if len(group.ops) > 1 and not (isinstance(op, Instr) and op.op.slot == "C"):
      yield replace(group, ops=group.ops[:i] + group.ops[i + 1:])

