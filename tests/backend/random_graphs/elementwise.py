"""Operations element by element.

Left out, since tinygrad itself is at odds with numpy there, on every device: a value with itself (x / x is 1, x - x and x * 0 are 0 for NaN
too, (x * y) / y is x), negative zeros that come of a zero (0 * x and 0 / x are 0 where it sees the constant, as in a part of a triangle),
the negative of unsigned integers (taken to be at most 0), floats to integers out of range.
"""
from __future__ import annotations

import numpy as np

from .graph import Draw, Step, op
from .values import BITS, FLOATS, INTS, Value, exact, need, numpy_dtype, once, to_float, wide


def is_number(v: Value) -> bool:
  return v.dtype != "bool"


def is_float(v: Value) -> bool:
  return v.is_float


def is_int(v: Value) -> bool:
  return v.is_int


def is_bool(v: Value) -> bool:
  return v.dtype == "bool"


def loose(*values: Value) -> bool:
  return any(v.loose for v in values)


# -- arithmetic -----------------------------------------------------------------------------------------
def _arithmetic(sign: str, f: np.ufunc, weight: float):
  def draw(d: Draw) -> Step:
    a = d.pick(is_number)

    def mirror(x: Value, y: Value) -> Value:
      if x.is_float:
        if f is np.multiply:
          no_zero_of_zero(wide(x), wide(y), wide(x) * wide(y))
        return once(f(wide(x), wide(y)), x.dtype, x, y)
      return x.having(f(x.data, y.data).astype(x.data.dtype))
    return Step(f.__name__, f"{{0}} {sign} {{1}}", (a, d.mate(a)), mirror)
  draw.__name__ = f.__name__
  op(weight)(draw)


for _sign, _f in (("+", np.add), ("-", np.subtract), ("*", np.multiply)):
  _arithmetic(_sign, _f, 1.5)


@op(2)
def quotient(d: Draw) -> Step:
  a = d.pick(is_float)
  return Step("quotient", "{0} / {1}", (a, d.mate(a, d.choose(["any", "nonzero"]))), divided)


def no_zero_of_zero(x: np.ndarray, y: np.ndarray, result: np.ndarray) -> None:
  need(not (np.signbit(result) & (result == 0) & ((x == 0) | (y == 0))).any())


def divided(x: Value, y: Value) -> Value:
  need(not y.loose and not x.loose)
  no_zero_of_zero(wide(x), np.ones(()), wide(x) / wide(y))
  return once(wide(x) / wide(y), x.dtype)


@op(2)
def quotients(d: Draw) -> Step:
  """Several by one divisor, perhaps a row's, and what is decided by them."""
  a = d.pick(lambda v: v.is_float and not v.loose)
  b, c = d.mate(a), d.mate(a, "nonzero")
  text, f = d.choose([("({0} / {2}).maximum({1} / {2})", lambda p, q: np.where(p < q, q, p)),
                      ("({0} / {2} < {1} / {2})", lambda p, q: p < q), ("({0} / {2} == {1} / {2})", lambda p, q: p == q),
                      ("({0} / {2} > 0).where({0} / {2}, {1} / {2})", lambda p, q: np.where(p > 0, p, q))])

  def mirror(x: Value, y: Value, z: Value) -> Value:
    p, q = divided(x, z), divided(y, z)
    data = f(p.data, q.data)
    return Value(data, "bool" if data.dtype == bool else x.dtype, data.dtype != bool)
  return Step("quotients", text, (a, b, c), mirror)


@op(1)
def quotient_of_equals(d: Draw) -> Step:
  """Equal numbers from two buffers: 1 exactly, however far the multiples of the reciprocal miss it."""
  a = d.new(d.choose(FLOATS), d.choose([(40,), (9, 9), (5, 33)]), "nonzero")
  twice = "{out} = {0}.unsqueeze(0).expand(SHAPE).contiguous().realize(); ".replace("SHAPE", str((2, *d.values[a].shape)))
  end = d.choose(["", ".floor()", ".clip(0, 9).floor()"])

  def mirror(x: Value) -> Value:
    need(np.isfinite(x.data).all() and (x.data != 0).all())
    return Value(np.ones_like(x.data), x.dtype, True)
  return Step("quotient_of_equals", f"{twice}{{out}} = ({{out}}[0] / {{out}}[1]){end}", (a,), mirror)


@op(1)
def constant(d: Draw) -> Step:
  """With a constant. Dividing by one is multiplying by its reciprocal, in tinygrad, so a power of two is drawn."""
  a = d.pick(is_number)
  v = d.values[a]
  if v.is_float:
    sign, c = d.choose([("+", 1.0), ("-", 0.5), ("*", 2.0), ("*", -0.5), ("/", 4.0), ("+", -2.0), ("*", 0.25)])
  else:
    sign, c = d.choose([("+", 1), ("-", 3), ("*", 5), ("*", 4), ("*", 7), ("+", 100)])
  f = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[sign]

  def mirror(x: Value) -> Value:
    if x.is_float:
      if sign in "*/":
        no_zero_of_zero(wide(x), np.ones(()), f(wide(x), c))
      return once(f(wide(x), c), x.dtype, x)
    return x.having(f(x.data, x.data.dtype.type(c)))
  return Step("constant", f"{{0}} {sign} {c}", (a,), mirror)


@op(1)
def divide_integers(d: Draw) -> Step:
  a = d.pick(is_int)
  dtype = d.values[a].dtype
  name, text = d.choose([("floor", "{0} // {1}"), ("mod", "{0} % {1}"),
                         ("trunc", "{0}.div({1}, rounding_mode='trunc')"), ("fmod", "{0}.fmod({1})")])
  c = 0
  if d.chance(0.6):
    negative, large = dtype[0] == "i", dtype not in ("int8", "uint8")
    c = int(d.choose([3, 5, 7, 10, 16, 100, 127] + [-3, -7, -8] * negative + [1000, 4096, 641] * large))
    text = text.replace("{1}", f"({c})")
  other = () if c else (d.mate(a, "nonzero"),)

  def mirror(x: Value, y: Value | None = None) -> Value:
    by = np.full_like(x.data, c) if y is None else np.broadcast_to(y.data, x.shape)
    need((by != 0).all() and (dtype[0] == "u" or (by != -1).all()))
    if name in ("floor", "mod"):
      return x.having(x.data // by if name == "floor" else x.data % by)
    rest = np.fmod(x.data, by)
    return x.having(rest if name == "fmod" else (x.data - rest) // by)
  return Step(f"divide_{name}", text, (a, *other), mirror)


@op(1)
def divide_wrapped(d: Draw) -> Step:
  """A division of what is never negative, or always short, unless it wraps: as it does."""
  narrow, to = d.choose([("uint16", "int32"), ("uint8", "int16"), ("uint16", "int64"), ("uint32", "uint64"), ("uint8", "uint64"),
                         ("uint32", "int64")])
  wide_type, c, rest = numpy_dtype(to).type, int(d.choose([3, 7, 10, 100, 127])), d.chance(0.5)
  text, f = d.choose([("{x} * {x}", lambda x: x * x), ("{x} * {x} * {x} * {x}", lambda x: x * x * x * x),
                      ("{x} * {x} - 9", lambda x: x * x - 9), ("({x} - 100) * {x}", lambda x: (x - 100) * x)])
  whole = f"({text.replace('{x}', f'{{0}}.cast(dtypes.{to})')})" + (f".fmod({c})" if rest else f".div({c}, rounding_mode='trunc')")

  def mirror(x: Value) -> Value:
    n = f(x.data.astype(wide_type))
    left = np.fmod(n, wide_type(c))
    return Value(left if rest else (n - left) // wide_type(c), to)
  return Step("divide_wrapped", whole, (d.new(narrow, d.choose([(5,), (33,), (4, 9)]), "any"),), mirror)


@op(1)
def bits(d: Draw) -> Step:
  a = d.pick(lambda v: not v.is_float)
  sign, f = d.choose([("&", np.bitwise_and), ("|", np.bitwise_or), ("^", np.bitwise_xor)])
  if d.chance(0.3):
    return Step("invert", "~{0}", (a,), lambda x: x.having(~x.data))
  return Step("bits", f"{{0}} {sign} {{1}}", (a, d.mate(a)), lambda x, y: x.having(f(x.data, y.data)))


@op(1)
def shift(d: Draw) -> Step:
  a = d.pick(is_int)
  v = d.values[a]
  size = 8 * v.data.itemsize
  sign, f = d.choose([("<<", np.left_shift), (">>", np.right_shift)])
  if d.chance(0.6):
    c = int(d.rng.integers(1, size))
    return Step("shift", f"{{0}} {sign} {c}", (a,), lambda x: x.having(f(x.data, x.data.dtype.type(c))))
  b = d.new(v.dtype, v.shape, "index", size)
  return Step("shift", f"{{0}} {sign} {{1}}", (a, b), lambda x, y: x.having(f(x.data, y.data)))


# -- selections -----------------------------------------------------------------------------------------
def largest(a: np.ndarray, b: np.ndarray) -> np.ndarray:
  """tinygrad's MAX: the first of two that are not in order."""
  return np.where(a < b, b, a)


def smallest(a: np.ndarray, b: np.ndarray) -> np.ndarray:
  return np.where(b < a, b, a)


@op(1.5)
def maximum(d: Draw) -> Step:
  a = d.pick(is_number)
  name, f = d.choose([("maximum", largest), ("minimum", smallest)])
  return Step(name, f"{{0}}.{name}({{1}})", (a, d.mate(a)), lambda x, y: Value(f(x.data, y.data), x.dtype, loose(x, y)))


@op(1)
def choose(d: Draw) -> Step:
  """The larger or smaller by comparison, as programs write it; with a constant too."""
  a = d.pick(is_float)
  c = float(d.choose([0.0, 0.5, -2.0]))
  if d.chance(0.5):
    text, f = d.choose([
      ("({0} > C).where({0}, C)", lambda x: np.where(x > c, x, c)), ("({0} < C).where({0}, C)", lambda x: np.where(x < c, x, c)),
      ("({0} < C).where(C, {0})", lambda x: np.where(x < c, c, x)), ("({0} >= C).where({0}, C)", lambda x: np.where(x < c, c, x)),
      ("{0}.relu()", lambda x: np.where(x > 0, x, 0))])
    return Step("choose", text.replace("C", str(c)), (a,), lambda x: x.having(f(x.data).astype(x.data.dtype)))
  text, f = d.choose([("({0} > {1}).where({0}, {1})", lambda x, y: np.where(x > y, x, y)),
                      ("({0} < {1}).where({0}, {1})", lambda x, y: np.where(x < y, x, y)),
                      ("({1} < {0}).where({1}, {0})", lambda x, y: np.where(y < x, y, x))])
  return Step("choose", text, (a, d.mate(a)), lambda x, y: Value(f(x.data, y.data), x.dtype, loose(x, y)))


@op(1)
def clip(d: Draw) -> Step:
  a = d.pick(lambda v: v.is_float or v.dtype in ("int8", "int16", "int32", "int64"))
  low, high = d.choose([(0, 9), (-2, 3), (-1, 1)])
  return Step("clip", f"{{0}}.clip({low}, {high})", (a,), lambda x: x.having(smallest(largest(x.data, low), high).astype(x.data.dtype)))


@op(1)
def where(d: Draw) -> Step:
  a = d.pick()
  v = d.values[a]
  c = d.new("bool", v.shape, "any") if d.chance(0.5) else d.pick(lambda w: w.dtype == "bool" and w.shape == v.shape)

  def mirror(c: Value, x: Value, y: Value) -> Value:
    return Value(np.where(c.data, x.data, y.data), x.dtype, loose(x, y))
  return Step("where", "{0}.where({1}, {2})", (c, a, d.mate(a)), mirror)


@op(1)
def masked_fill(d: Draw) -> Step:
  a = d.pick(is_float)
  text, test = d.choose([("{0} != {0}", lambda x: x != x), ("{0} > 1", lambda x: x > 1), ("{0} == 0", lambda x: x == 0),
                         ("{0}.isinf()", np.isinf)])
  fill = d.choose([0.0, 1.5, float("-inf")])
  return Step("masked_fill", f"{{0}}.masked_fill({text}, {fill!r})".replace("-inf", "-float('inf')"), (a,),
              lambda x: x.having(np.where(test(x.data), x.data.dtype.type(fill), x.data)))


@op(2)
def compare(d: Draw) -> Step:
  a = d.pick()
  sign, f = d.choose([("<", np.less), (">", np.greater), ("<=", lambda x, y: ~(y < x)), (">=", lambda x, y: ~(x < y)),
                      ("==", np.equal), ("!=", np.not_equal)])
  return Step("compare", f"{{0}} {sign} {{1}}", (a, d.mate(a)), lambda x, y: Value(f(x.data, y.data), "bool"))


# -- one operand ----------------------------------------------------------------------------------------
@op(1.5)
def unary(d: Draw) -> Step:
  a = d.pick(lambda v: v.is_float or v.dtype in ("int8", "int16", "int32", "int64"))
  names = {"neg": np.negative, "abs": lambda x: np.where(x < 0, -x, x), "sign": lambda x: np.where(x == 0, 0, np.where(x < 0, -1, 1))}
  if d.values[a].is_float:
    names |= {"floor": lambda x: np.where(np.isinf(x), x, np.floor(x)), "ceil": np.ceil, "trunc": np.trunc}
  name = d.choose([*names])

  def mirror(x: Value) -> Value:
    data = names[name](x.data).astype(x.data.dtype)
    need(name != "neg" or not x.loose or not (np.signbit(data) & (data == 0)).any())  # -(x - y) is y - x in tinygrad, 0 if they are equal
    if name in ("floor", "ceil", "sign"):  # b - 1 and b + 1 of 16-bit floats may round, signs of NaN are what comparisons make of it
      need(np.isfinite(x.data).all() and (name == "sign" or exact(data, BITS[x.dtype])))
    return Value(data, x.dtype, x.loose or name in ("floor", "ceil"))
  return Step(name, f"{{0}}.{name}()", (a,), mirror)


@op(1)
def root(d: Draw) -> Step:
  a = d.pick(lambda v: v.is_float and not v.loose)
  if d.chance(0.4):
    return Step("reciprocal", "{0}.reciprocal()", (a,), lambda x: once(1 / wide(x), x.dtype))
  return Step("sqrt", "{0}.abs().sqrt()", (a,), lambda x: once(np.sqrt(np.where(x.data < 0, -wide(x), wide(x))), x.dtype))  # abs keeps -0


# -- conversions ----------------------------------------------------------------------------------------
@op(2)
def cast(d: Draw) -> Step:
  a = d.pick()
  target = str(d.choose(["bool", *INTS, *FLOATS]))

  def mirror(x: Value) -> Value:
    if target == "bool":
      return Value(x.data != 0, target)
    if target in FLOATS:
      # In two steps, if wide integers need rounding on the way to float32.
      need(not x.is_int or (np.abs(x.data.astype(np.float64)) < 1 << 24).all())
      data = to_float(wide(x) if x.is_float else x.data.astype(np.float64), target)
      need(not x.loose or same_numbers(data, x.data))
      return Value(data, target, x.loose)
    info = np.iinfo(target)
    if x.is_float:
      need(np.isfinite(x.data).all() and (np.trunc(wide(x)) >= info.min).all() and (np.trunc(wide(x)) <= min(info.max, 1 << 30)).all())
      return Value(np.trunc(wide(x)).astype(target), target)
    return Value(x.data.astype(target), target)
  return Step("cast", f"{{0}}.cast(dtypes.{target})", (a,), mirror)


def same_numbers(a: np.ndarray, b: np.ndarray) -> bool:
  return bool(np.array_equal(a.astype(np.float64), b.astype(np.float64), equal_nan=True))


WORDS = {"float32": ("int32", "uint32"), "int32": ("float32", "uint32"), "uint32": ("float32", "int32"),
         "float16": ("int16", "uint16"), "int16": ("float16", "uint16"), "uint16": ("int16", "float16"),
         "int8": ("uint8",), "uint8": ("int8",), "int64": ("uint64",), "uint64": ("int64",)}


@op(0.8)
def bitcast(d: Draw) -> Step:
  a = d.pick(lambda v: v.dtype in WORDS)
  target = str(d.choose(WORDS[d.values[a].dtype]))

  def mirror(x: Value) -> Value:
    need(not x.is_float or not np.isnan(x.data).any())  # which of the NaNs it is, is not promised
    data = np.asarray(x.data, order="C").view(numpy_dtype(target))
    need(target not in FLOATS or not np.isnan(data).any())
    return Value(data, target)
  return Step("bitcast", f"{{0}}.bitcast(dtypes.{target})", (a,), mirror)

