"""Names of programs and variables: what stands as one word in assembly text, and nothing that a terminal or a table would act on."""
from __future__ import annotations

from .errors import quote

MAX_NAME_BYTES = 1023


def name_fault(name: object) -> str:
  """Why `name` cannot be the name of a program, variable or preset; "" if it can: 1 to MAX_NAME_BYTES bytes of UTF-8, every character
  printable, no space and no '#'."""
  if not isinstance(name, str):
    return f"a name must be text, not {type(name).__name__}"
  if not name:
    return "a name must not be empty"
  if bad := next((c for c in name if not c.isprintable() or c in " #"), ""):
    return f"a name must be printable, without spaces and '#', and {quote(name)} holds {character(bad)}"
  if (size := len(name.encode())) > MAX_NAME_BYTES:
    return f"a name must have at most {MAX_NAME_BYTES} bytes, and {quote(name)} has {size}"
  return ""


def character(c: str) -> str:
  """A character as a message names it: U+2028, or 'x' where that can be printed."""
  return repr(c) if c.isprintable() else f"U+{ord(c):04X}"
