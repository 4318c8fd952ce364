"""LSTM, GRU and RNN out of tinygrad's operations; its front end has none of them.

A direction is one product with the input weights for all steps at once, then a loop over steps. A step's number is a variable of its
kernels, so that they are compiled once for all steps. Names and order of arguments are ONNX's; dtypes are those of X.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tinygrad import Tensor, Variable

NEEDED = float("inf")
Function = Callable[[Tensor], Tensor]


class _Kind(NamedTuple):
  """An activation. alpha, beta: default values; NEEDED: it must be given, as ONNX has none or onnxruntime another; None: it takes none."""
  make: Callable[[float, float], Function]
  alpha: float | None = None
  beta: float | None = None


_KINDS: dict[str, _Kind] = {
  "relu": _Kind(lambda a, b: lambda x: x.relu()),
  "tanh": _Kind(lambda a, b: lambda x: x.tanh()),
  "sigmoid": _Kind(lambda a, b: lambda x: x.sigmoid()),
  "affine": _Kind(lambda a, b: lambda x: a * x + b, NEEDED, NEEDED),
  "leakyrelu": _Kind(lambda a, b: lambda x: (x >= 0).where(x, a * x), 0.01),
  "thresholdedrelu": _Kind(lambda a, b: lambda x: (x >= a).where(x, 0), NEEDED),
  "scaledtanh": _Kind(lambda a, b: lambda x: a * (b * x).tanh(), NEEDED, NEEDED),
  "hardsigmoid": _Kind(lambda a, b: lambda x: (a * x + b).clip(0, 1), 0.2, 0.5),
  "elu": _Kind(lambda a, b: lambda x: (x >= 0).where(x, a * (x.exp() - 1)), 1.0),
  "softsign": _Kind(lambda a, b: lambda x: x / (1 + x.abs())),
  "softplus": _Kind(lambda a, b: lambda x: x.softplus()),
}


def _functions(names: Sequence[str], alphas: Sequence[float] | None, betas: Sequence[float] | None) -> list[Function]:
  """Activations by name. Each that takes an alpha (or beta) takes the next of the list, or its default if the list is at its end."""
  rest = [iter(alphas or ()), iter(betas or ())]
  found = []
  for name in names:
    if name.lower() not in _KINDS:
      raise NotImplementedError(f"activation {name!r}; there are {', '.join(_KINDS)}")
    kind = _KINDS[name.lower()]
    alpha, beta = (0.0 if default is None else next(values, default) for values, default in zip(rest, kind[1:], strict=True))
    if NEEDED in (alpha, beta):
      needed = [word for word, value in (("activation_alpha", alpha), ("activation_beta", beta)) if value == NEEDED]
      raise ValueError(f"activation {name!r} needs {' and '.join(needed)}")
    found.append(kind.make(alpha, beta))
  return found


class _Layer(NamedTuple):
  """What the three have in common. X: (steps, batch, inputs); W: (directions, gates * hidden, inputs);
  R: (directions, gates * hidden, hidden); B: (directions, 2 * gates * hidden) or None; lengths: (batch,) of integers, or None;
  states: initial ones, (directions, batch, hidden) each; functions: activations of all directions, in order."""
  X: Tensor
  W: Tensor
  R: Tensor
  B: Tensor | None
  lengths: Tensor | None
  states: list[Tensor]
  functions: list[Function]
  direction: str


Step = Callable[[int, list[Function], Tensor, list[Tensor]], list[Tensor]]
"""A cell: direction, its activations, (batch, gates * hidden) from the input, states; new states, of which the first is the output."""


def _backwards(x: Tensor, lengths: Tensor | None) -> Tensor:
  """(steps, batch, n) with the steps of each sequence in opposite order; what is behind a sequence's end stays."""
  if lengths is None:
    return x.flip(0)
  step = Tensor.arange(int(x.shape[0])).reshape(-1, 1)
  index = (step < lengths.reshape(1, -1)).where(lengths.reshape(1, -1) - 1 - step, step)
  return x.gather(0, index.reshape(*index.shape, 1).expand(*x.shape))


def _run(layer: _Layer, bias: Callable[[Tensor], Tensor], step: Step) -> tuple[Tensor, list[Tensor]]:
  """All directions: outputs (steps, directions, batch, hidden), and the last states, (directions, batch, hidden) each. `bias` makes of a
  direction's B what is added to its input product."""
  steps, batch, _ = map(int, layer.X.shape)
  directions, hidden = int(layer.R.shape[0]), int(layer.R.shape[-1])
  if directions != (2 if layer.direction == "bidirectional" else 1):
    raise ValueError(f"direction {layer.direction} with weights of {directions}")
  each = len(layer.functions) // directions
  outputs, lasts = [], []
  if layer.lengths is not None:
    alive = (Tensor.arange(steps).reshape(-1, 1) < layer.lengths.reshape(1, -1)).reshape(steps, batch, 1).contiguous().realize()
  for d in range(directions):
    backwards = layer.direction == "reverse" or d == 1
    x = _backwards(layer.X, layer.lengths) if backwards else layer.X
    gates = x.reshape(steps * batch, -1) @ layer.W[d].transpose()
    if layer.B is not None:
      gates = gates + bias(layer.B[d])
    gates = gates.reshape(steps, batch, -1).contiguous().realize()
    states = [state[d].contiguous().realize() for state in layer.states]
    functions = layer.functions[d * each:(d + 1) * each]
    output = Tensor.zeros(steps, batch, hidden, dtype=layer.X.dtype).contiguous().realize()
    for number in range(steps):
      now = Variable("step", 0, steps - 1).bind(number) if steps > 1 else 0
      new = step(d, functions, gates[now], states)
      shown = new[0]
      if layer.lengths is not None:
        new = [alive[now].where(n, old) for n, old in zip(new, states, strict=True)]
        shown = alive[now].where(shown, 0)
      states = [state.cast(layer.X.dtype).contiguous() for state in new]
      Tensor.realize(*states)
      output[now:now + 1].assign(shown.reshape(1, batch, hidden).cast(layer.X.dtype)).realize()
    outputs.append(_backwards(output, layer.lengths) if backwards else output)
    lasts.append(states)
  return Tensor.stack(*outputs, dim=1), [Tensor.stack(*(states[i] for states in lasts)) for i in range(len(layer.states))]


def _layer(X: Tensor, W: Tensor, R: Tensor, B: Tensor | None, lengths: Tensor | None, states: Sequence[Tensor | None], layout: int,
           direction: str, functions: list[Function]) -> _Layer:
  if layout:
    X = X.transpose(0, 1)
    states = [None if state is None else state.transpose(0, 1) for state in states]
  shape = (int(R.shape[0]), int(X.shape[1]), int(R.shape[-1]))
  full = [Tensor.zeros(*shape, dtype=X.dtype) if state is None else state for state in states]
  return _Layer(X, W, R, B, lengths, full, functions, direction)


def _given(output: Tensor, states: list[Tensor], layout: int) -> tuple[Tensor, ...]:
  """Outputs in the layout asked for."""
  if not layout:
    return (output, *states)
  return (output.permute(2, 0, 1, 3), *(state.transpose(0, 1) for state in states))


def _clipped(clip: float | None) -> Function:
  return (lambda x: x) if not clip else (lambda x: x.clip(-clip, clip))


def _names(activations: Sequence[str] | None, default: Sequence[str], direction: str) -> list[str]:
  return list(activations or list(default) * (2 if direction == "bidirectional" else 1))


def LSTM(X: Tensor, W: Tensor, R: Tensor, B: Tensor | None = None, sequence_lens: Tensor | None = None, initial_h: Tensor | None = None,
         initial_c: Tensor | None = None, P: Tensor | None = None, *, hidden_size: int | None = None, direction: str = "forward",
         layout: int = 0, activations: Sequence[str] | None = None, activation_alpha: Sequence[float] | None = None,
         activation_beta: Sequence[float] | None = None, clip: float | None = None, input_forget: int = 0,
         output_sequence: int = 1) -> tuple[Tensor, ...]:
  """ONNX's LSTM: Y, Y_h, Y_c. Gates lie in the order input, output, forget, cell; peepholes P in that of the first three."""
  n, limit = int(R.shape[-1]), _clipped(clip)
  functions = _functions(_names(activations, ("Sigmoid", "Tanh", "Tanh"), direction), activation_alpha, activation_beta)
  layer = _layer(X, W, R, B, sequence_lens, (initial_h, initial_c), layout, direction, functions)

  def step(d: int, acts: list[Function], x: Tensor, states: list[Tensor]) -> list[Tensor]:
    f, g, h_of = acts
    h, c = states
    i, o, forget, cell = (x + h @ R[d].transpose()).split(n, dim=-1)
    pi, po, pf = P[d].split(n) if P is not None else (None, None, None)
    i = f(limit(i if pi is None else i + pi * c))
    forget = 1 - i if input_forget else f(limit(forget if pf is None else forget + pf * c))
    c = forget * c + i * g(limit(cell))
    o = f(limit(o if po is None else o + po * c))
    return [o * h_of(c), c]

  return _given(*_run(layer, lambda b: b[:4 * n] + b[4 * n:], step), layout)


def GRU(X: Tensor, W: Tensor, R: Tensor, B: Tensor | None = None, sequence_lens: Tensor | None = None, initial_h: Tensor | None = None, *,
        hidden_size: int | None = None, direction: str = "forward", layout: int = 0, activations: Sequence[str] | None = None,
        activation_alpha: Sequence[float] | None = None, activation_beta: Sequence[float] | None = None, clip: float | None = None,
        linear_before_reset: int = 0, output_sequence: int = 1) -> tuple[Tensor, ...]:
  """ONNX's GRU: Y, Y_h. Gates lie in the order update, reset, hidden."""
  n, limit = int(R.shape[-1]), _clipped(clip)
  functions = _functions(_names(activations, ("Sigmoid", "Tanh"), direction), activation_alpha, activation_beta)
  layer = _layer(X, W, R, B, sequence_lens, (initial_h,), layout, direction, functions)

  def bias(b: Tensor) -> Tensor:
    if not linear_before_reset:
      return b[:3 * n] + b[3 * n:]
    return (b[:2 * n] + b[3 * n:5 * n]).cat(b[2 * n:3 * n])  # that of the recurrent product comes before the reset

  def step(d: int, acts: list[Function], x: Tensor, states: list[Tensor]) -> list[Tensor]:
    f, g = acts
    h, = states
    zr = x[:, :2 * n] + h @ R[d, :2 * n].transpose()
    z, r = f(limit(zr[:, :n])), f(limit(zr[:, n:]))
    if linear_before_reset:
      inner = h @ R[d, 2 * n:].transpose()
      inner = r * (inner if B is None else inner + B[d, 5 * n:])
    else:
      inner = (r * h) @ R[d, 2 * n:].transpose()
    return [(1 - z) * g(limit(x[:, 2 * n:] + inner)) + z * h]

  return _given(*_run(layer, bias, step), layout)


def RNN(X: Tensor, W: Tensor, R: Tensor, B: Tensor | None = None, sequence_lens: Tensor | None = None, initial_h: Tensor | None = None, *,
        hidden_size: int | None = None, direction: str = "forward", layout: int = 0, activations: Sequence[str] | None = None,
        activation_alpha: Sequence[float] | None = None, activation_beta: Sequence[float] | None = None, clip: float | None = None,
        output_sequence: int = 1) -> tuple[Tensor, ...]:
  """ONNX's RNN: Y, Y_h."""
  n, limit = int(R.shape[-1]), _clipped(clip)
  functions = _functions(_names(activations, ("Tanh",), direction), activation_alpha, activation_beta)
  layer = _layer(X, W, R, B, sequence_lens, (initial_h,), layout, direction, functions)

  def step(d: int, acts: list[Function], x: Tensor, states: list[Tensor]) -> list[Tensor]:
    return [acts[0](limit(x + states[0] @ R[d].transpose()))]

  return _given(*_run(layer, lambda b: b[:n] + b[n:], step), layout)
