"""The table checks itself; its checks find what is broken."""
from __future__ import annotations

from dataclasses import replace

import pytest

from tests.iss.reference import FLOAT
from tinytpu.isa import encoding as enc
from tinytpu.isa.table import FLOATS, OPS, check_table, reads, writes

ROWS = list(OPS.values())


def test_the_table_holds() -> None:
  check_table(ROWS)


def test_operations_on_floats_are_those_that_the_reference_computes_in_floats() -> None:
  assert FLOATS == FLOAT.keys()


@pytest.mark.parametrize("change, message", [
  ({"name": "vadd"}, "'vadd' is taken"), ({"code": 0x50}, "80 is taken"), ({"code": 0}, "code 0x0 is not"),
  ({"code": 256}, "code 0x100 is not"),
  ({"slot": "Q"}, "unknown slot 'Q'"), ({"operands": ("vd", "zz")}, "unknown operand kind 'zz'"),
  ({"timing": "SOON"}, "unknown timing 'SOON'"),
  ({"timing": ""}, "a result needs a latency")])
def test_broken_rows_are_found(change: dict, message: str) -> None:
  broken = replace(OPS["vsub"], **change)
  with pytest.raises(ValueError, match=message):
    check_table([op for op in ROWS if op.name != "vsub"] + [broken])


FORMS = [
  [enc.CHAIN, enc.CODE, enc.D, enc.A, enc.C, enc.MODE, enc.IMM],
  [enc.CHAIN, enc.CODE, enc.D, enc.A, enc.C, enc.BKIND, enc.SWAP, enc.B],
  [enc.CHAIN, enc.CODE, enc.D, enc.A, enc.C, enc.MASKED, enc.DTYPE, enc.X, enc.R, enc.C2, enc.OFF],
  [enc.CHAIN, enc.CODE, enc.D, enc.A, enc.C, enc.ZV, enc.X, enc.R, enc.C2, enc.Z, enc.ZH]]


@pytest.mark.parametrize("form", FORMS, ids=["immediate", "register", "memory", "dma"])
def test_fields_of_a_form_do_not_overlap(form: list[enc.Field]) -> None:
  seen = 0
  for field in form:
    bits = field.mask << field.lsb
    assert not seen & bits and bits < 1 << 64, field.name
    seen |= bits


@pytest.mark.parametrize("field", enc.FIELDS.values(), ids=lambda f: f.name)
def test_fields_hold_their_range_and_no_more(field: enc.Field) -> None:
  low, high = (-(1 << field.width - 1), (1 << field.width - 1) - 1) if field.signed else (0, (1 << field.width) - 1)
  for value in (low, high):
    assert field.get(field.put(value)) == value
  for value in (low - 1, high + 1):
    with pytest.raises(ValueError, match=f"{field.name} must be {low} to {high}"):
      field.put(value)


def test_every_register_access_names_a_field() -> None:
  for op in ROWS:
    for access in (*reads(op, 0, True), *writes(op)):
      assert access.field in enc.FIELDS and access.file in "vspq", op.name
