"""`tinytpu run --break --watch`: the launch stopped between groups, on each engine, and what is there shown."""
from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, zip_longest
from typing import NamedTuple

import numpy as np

from ..asm.disassembler import group_at
from ..asm.errors import quote
from ..config import Config
from ..machine import Engine
from ..machine.replay import FILES, Place, Replay, Stop
from .common import UsageError, say
from .memory import COUNTS, Shown, integer


class Points(NamedTuple):
  """Where to stop. breaks: words at which groups begin; places: what is watched; most: stops that are shown."""
  breaks: list[int]
  places: list[Place]
  most: int


def place(text: str, config: Config) -> Place:
  """What a `--watch` names: s5, v3, p2, vmem:ADDRESS[:WORDS] or hbm:ADDRESS[:WORDS].

  Raises:
    UsageError: malformed, or beyond the machine.
  """
  if match := re.fullmatch(r"([svp])([0-9]{1,3})", text):
    if int(match[2]) >= COUNTS[match[1]]:
      raise UsageError(f"{quote(text)}: registers are {match[1]}0 to {match[1]}{COUNTS[match[1]] - 1}")
    return Place(match[1], int(match[2]))
  kind, *parts = text.split(":")
  if kind not in ("vmem", "hbm") or len(parts) not in (1, 2):
    raise UsageError(f"{quote(text)}: expected s5, v3, p2, vmem:ADDRESS[:WORDS] or hbm:ADDRESS[:WORDS]")
  address, words = integer(parts[0], "a byte address", text), integer(parts[1], "a number of words", text) if len(parts) == 2 else 1
  size = config.vmem_bytes if kind == "vmem" else config.hbm_bytes
  if words < 1 or not 0 <= address <= size - 4 * words:
    raise UsageError(f"{quote(text)}: the words are beyond {'VMEM' if kind == 'vmem' else 'device memory'} ({size:#x} bytes)")
  return Place(kind, address, words)


def word(text: str, words: np.ndarray) -> int:
  """What a `--break` names: the index of a word at which a group of the program begins.

  Raises:
    UsageError: there is none.
  """
  from ..isa.instruction import unpack
  pc, at = integer(text, "a word index", f"--break {text}"), 0
  for group in unpack(words):
    if at == pc:
      return pc
    at += len(group)
  raise UsageError(f"--break {text}: no group begins there; `tinytpu dump` shows the word of each")


def tell(replays: dict[str, Replay], points: Points, shown: Sequence[Shown], registers: Callable[[Engine], None] | None) -> list[str]:
  """Print the first stops of a launch, with the registers that the group reads or what it changed, and what else is to be shown; returns
  what the engines differ in. replays: of the same launch, by engine."""
  first, *others = kinds = list(replays)
  streams = zip_longest(*(_stops(replay, points) for replay in replays.values()))
  differences: list[str] = []
  number = 0
  for number, found in enumerate(islice(streams, points.most + 1), 1):
    if number > points.most:
      say("there are more stops: --stops N shows N")
      break
    differences += [f"stop {number}: {first} {_short(found[0])}; {kind} {_short(other)}"
                    for kind, other in zip(others, found[1:], strict=True) if other != found[0]]
    stop, lines = next(f for f in found if f is not None)
    replay = replays[kinds[found.index((stop, lines))]]
    say(f"stop {number}, {_place(stop)}: {group_at(replay.words, stop.pc)}", "bold")
    for line in lines:
      say(f"  {line}")
    if shown or registers:
      with replay.at(stop) as engine:
        for item in shown:
          say(f"  {item.text}: {item.of(engine)}")
        if registers:
          registers(engine)
  if not number:
    say("no stop: no group at these words issued" if not points.places else "no stop: no group changed what is watched" +
        ", or issued at these words" * bool(points.breaks))
  if number <= points.most and (dropped := replays[first].dropped):
    say(f"{dropped:,} groups at the end found no room, there may be more stops: --most-events N looks at N")
  return differences


def _stops(replay: Replay, points: Points) -> Iterator[tuple[Stop, list[str]]]:
  """Stops in order, and what there is to say of each."""
  breaks = ((stop, None) for stop in replay.breaks(points.breaks))
  changes = replay.changes(points.places) if points.places else iter(())
  waiting = [next(breaks, None), next(changes, None)]
  while any(waiting):
    first = min((i for i in range(2) if waiting[i]), key=lambda i: (waiting[i][0].cycle, waiting[i][0].after))  # type: ignore[index]
    stop, changed = waiting[first]  # type: ignore[misc]
    waiting[first] = next((breaks, changes)[first], None)
    if changed is None:
      with replay.at(stop) as engine:
        yield stop, [f"{name} = {_values(values)}" for name, values in replay.operands(engine, stop.pc).items()]
    else:
      yield stop, [f"{_name(p)}: {_values(before)} -> {_values(after)}" for p, (before, after) in changed.items()]


def _place(stop: Stop) -> str:
  return f"cycle {stop.cycle:,}, word {stop.pc}, {'after' if stop.after else 'before'}"


def _short(found: tuple[Stop, list[str]] | None) -> str:
  return "none" if found is None else f"{_place(found[0])}, {', '.join(found[1])}"


def _name(p: Place) -> str:
  return f"{p.kind}{p.at}" if p.kind in FILES else f"{p.kind}:{p.at:#x}"


def _values(values: np.ndarray) -> str:
  """Words in hexadecimal; one in decimal too."""
  if len(values) == 1:
    return f"{int(values[0]):#x} ({int(values[0].astype(np.int32))})"
  return " ".join(f"{int(v):08x}" for v in values)
