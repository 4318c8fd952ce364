"""A run that is stopped and resumed from a safetensors file ends with the same bits as one that is not.

Without options three processes show it: one trains to the end; one stops half-way and writes a checkpoint; one goes on from there. All
tensors of the first and the last must be equal: weights, momenta, the optimizer's step counters, and the random generator, which dropout
and batches draw from.
"""
from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from tinygrad import Tensor, TinyJit, nn
from tinygrad.helpers import Context

from tinytpu.demo.digits import load

from .common import Report, options, run, target
from .digits import Net, tensors
from .files import fill, load_safetensors, save_safetensors


def train(a: argparse.Namespace) -> int:
  """Train from the start or from a checkpoint, and write one at the end."""
  given = load_safetensors(a.resume) if a.resume else {}
  Tensor.manual_seed(a.seed)
  x, y = tensors(load()[0])
  net = Net()
  optimizer = nn.optim.Adam(nn.state.get_parameters(net), lr=a.rate)
  Tensor.rand(1).realize()  # makes the generator's state, of which tinygrad has no public name
  device = optimizer.device
  state = {f"net.{name}": tensor for name, tensor in nn.state.get_state_dict(net).items()}
  state |= {f"optimizer.{name}": tensor for name, tensor in nn.state.get_state_dict(optimizer).items()
            if not name.startswith("params.")}  # which are the net's
  state |= {"random.seed": Tensor._device_seeds[device], "random.counter": Tensor._device_rng_counters[device]}
  Tensor.realize(*state.values())
  if a.resume:
    fill(state, given, a.resume)

  @TinyJit
  def step() -> Tensor:
    optimizer.zero_grad()
    chosen = Tensor.randint(a.batch, high=x.shape[0])
    loss = net(x[chosen]).sparse_categorical_crossentropy(y[chosen]).backward()
    return loss.realize(*optimizer.schedule_step())

  report = Report(a, every=10)
  with Context(TRAINING=1):
    for _ in range(a.steps):
      report.step(step().item())
  if a.save:
    save_safetensors(state, a.save)
  return report.finish()


def show(a: argparse.Namespace) -> int:
  """Three processes and a comparison."""
  with tempfile.TemporaryDirectory() as folder:
    whole, half, resumed = (Path(folder) / f"{name}.safetensors" for name in ("whole", "half", "resumed"))
    start = ["--seed", a.seed, "--rate", a.rate]
    files = [word for option, file in (("--plot", a.plot), ("--json", a.json)) if file for word in (option, file)]
    for title, steps, more in (("uninterrupted", 2 * a.steps, [*start, "--save", whole, *files]),
                               ("stopped half-way", a.steps, [*start, "--save", half]),
                               ("resumed", a.steps, ["--resume", half, "--save", resumed])):
      print(f"-- {title}", flush=True)
      command = [sys.executable, "-m", "examples.resume", "--batch", a.batch, "--steps", steps, *more]
      if code := subprocess.run(list(map(str, command)), check=False).returncode:
        return code  # it has said why
    one, other = load_safetensors(whole), load_safetensors(resumed)
    same = [name for name in one if one[name].data().tobytes() == other[name].data().tobytes()]
    size = sum(tensor.nbytes() for tensor in one.values())
  print(f"{len(same)} of {len(one)} tensors ({size:,} bytes) equal bit for bit")
  return int(len(same) < len(one))


def main() -> int:
  """Train, or show that resuming changes nothing."""
  parser = options(__doc__, steps=20, rate=2e-3)
  parser.add_argument("--save", type=target, metavar="FILE", help="train --steps steps and write everything to this file")
  parser.add_argument("--resume", type=Path, metavar="FILE", help="go on from such a file")
  a = parser.parse_args()
  if a.resume and (a.rate, a.seed) != (parser.get_default("rate"), parser.get_default("seed")):
    parser.error("--rate and --seed are the checkpoint's: leave them out with --resume")
  return train(a) if a.save or a.resume else show(a)


if __name__ == "__main__":
  run(main)
