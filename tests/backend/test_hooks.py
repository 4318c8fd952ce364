"""What is put into tinygrad is asked for there, or refused at once; and it is for kernels of ours."""
from __future__ import annotations

import pytest
from tinygrad import Tensor, codegen, dtypes
from tinygrad.codegen.opt import postrange
from tinygrad.helpers import Context

from tinytpu.backend import hooks, patch


def test_a_name_that_tinygrad_has_no_more_is_refused():
  with pytest.raises(AssertionError, match="tinygrad's tinygrad.codegen has no pm_of_old"):
    patch.put(codegen, "pm_of_old", codegen.full_rewrite_to_sink, None)


def test_a_name_that_is_not_looked_up_is_refused():
  with pytest.raises(AssertionError, match="tinygrad's apply_opts does not ask for pm_add_loads"):
    patch.put(codegen, "pm_add_loads", postrange.apply_opts, None)
  assert codegen.pm_add_loads is not None


def test_a_pattern_that_is_gone_is_refused():
  with pytest.raises(AssertionError, match="tinygrad's pm_add_loads does not call put"):
    patch.replace(codegen, "pm_add_loads", codegen.full_rewrite_to_sink, patch.put, patch.put)


def test_each_is_called_for_our_kernels_alone(monkeypatch):
  """Seen from functions of ours behind them."""
  called: set[str] = set()

  def watch(name: str) -> None:
    theirs = getattr(hooks, name)

    def watched(*args, **kwargs):
      called.add(name)
      return theirs(*args, **kwargs)
    monkeypatch.setattr(hooks, name, watched)
  watch("optimize")
  monkeypatch.setattr(hooks.beam, "faster", lambda s, config, found, *_: called.add("beam") or found)

  def compute(device: str) -> None:
    codegen.to_program_cache.clear()
    with Context(PARALLEL=0):
      x = Tensor([[1.0, 5.0, 2.0]] * 5, device=device).realize()
      assert Tensor([1, 2, 3], dtype=dtypes.int32, device=device).cast(dtypes.float32).pad((1, 1)).tolist() == [0, 1, 2, 3, 0]
      with Context(BEAM=1, IGNORE_BEAM_CACHE=1):
        (x * 3).realize()
    codegen.to_program_cache.clear()
  compute("PYTHON")
  assert not called
  compute("TINYTPU")
  assert called >= {"optimize", "beam"}
