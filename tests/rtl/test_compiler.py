"""Which C++ compiler is taken."""
from __future__ import annotations

import pytest

from tinytpu.rtl.compiler import RtlBuildError, find_compiler


@pytest.mark.parametrize("blank", ["", " ", "\t\n"])
def test_a_blank_variable_is_no_compiler(monkeypatch: pytest.MonkeyPatch, blank: str) -> None:
  monkeypatch.delenv("CXX", raising=False)
  usual = find_compiler()
  monkeypatch.setenv("CXX", blank)
  assert find_compiler() == usual


def test_a_compiler_may_have_arguments_and_must_exist(monkeypatch: pytest.MonkeyPatch) -> None:
  monkeypatch.setenv("CXX", "env  -i")
  assert find_compiler() == ["env", "-i"]
  monkeypatch.setenv("CXX", "no-such-compiler")
  with pytest.raises(RtlBuildError, match="names a compiler that is not on PATH"):
    find_compiler()
