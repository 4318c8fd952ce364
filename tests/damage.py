"""Ways in which a file of a cache can be damaged, and a user without rights."""
from __future__ import annotations

import contextlib
import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

NOBODY = 65534
DAMAGES = ("truncated", "cut by a byte", "emptied", "noise", "noise in the middle", "removed", "folder", "full folder", "pipe",
           "dangling link", "link to itself", "writable by everyone")
"""Kinds that `damage` knows. What permissions forbid is apart: they do not bind root (`drop_rights`)."""


def damage(path: Path, kind: str, seed: int = 0) -> None:
  """Damage the file at `path`; noise comes from `seed`."""
  data = path.read_bytes()
  noise = random.Random(seed)
  if kind == "writable by everyone":
    path.chmod(0o666)
    return
  path.unlink()
  if kind == "truncated":
    path.write_bytes(data[:len(data) // 2])
  elif kind == "cut by a byte":
    path.write_bytes(data[:-1])
  elif kind == "emptied":
    path.write_bytes(b"")
  elif kind == "noise":
    path.write_bytes(noise.randbytes(len(data)))
  elif kind == "noise in the middle":
    middle = len(data) // 2
    path.write_bytes(data[:middle] + bytes([data[middle] ^ noise.randrange(1, 256)]) + data[middle + 1:])
  elif kind == "folder":
    path.mkdir()
  elif kind == "full folder":
    path.mkdir()
    (path / "file").write_bytes(data)
  elif kind == "pipe":
    os.mkfifo(path)
  elif kind == "dangling link":
    path.symlink_to(path.with_name("nowhere"))
  elif kind == "link to itself":
    path.symlink_to(path)
  elif kind != "removed":
    raise ValueError(f"unknown damage {kind!r}; known: {', '.join(DAMAGES)}")


def drop_rights() -> None:
  """Become a user whom permissions bind, in a process of its own: what is to be imported must be imported already, since that user may
  not read the interpreter's files. Who is not root is bound already."""
  if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def read_only(folder: Path) -> None:
  """Take everybody's right to write from `folder` and all that is in it."""
  for path in [folder, *folder.rglob("*")]:
    path.chmod(path.stat().st_mode & ~0o222)


@contextlib.contextmanager
def open_folder() -> Iterator[Path]:
  """A temporary folder that other users can reach, unlike pytest's."""
  with tempfile.TemporaryDirectory() as folder:
    Path(folder).chmod(0o755)
    yield Path(folder)


def restore(original: Path, path: Path) -> None:
  """Put a copy of `original` in place of `path`, whatever is there."""
  if path.is_dir() and not path.is_symlink():
    shutil.rmtree(path)
  path.unlink(missing_ok=True)
  path.parent.mkdir(parents=True, exist_ok=True)
  shutil.copy2(original, path)

