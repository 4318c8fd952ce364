"""Files that are kept between processes: where they lie, and why what is read back can be trusted.

Each file ends in a seal, a hash over its name and contents. One whose seal does not fit (cut short, damaged, another file under its
name), that is no plain file, or that somebody else may have written counts as absent, and is made again. Files are replaced as a
whole, so a reader finds the old one or the new one. A cache that cannot be written costs time only: files go to a temporary folder of
this process then.
"""
from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import logging
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from platformdirs import user_cache_dir

_MAGIC = b"tinytpu\x01"
_SEAL = len(_MAGIC) + hashlib.sha256().digest_size

_PREFIX = "tinytpu-scratch."  # what begins so in the system's temporary folder is ours to remove

_scratch: dict[int, Path] = {}
"""Temporary folder by process id: a forked child makes its own."""
_warned: set[Path] = set()


def root() -> Path:
  """The cache: $TINYTPU_CACHE, else the user's cache folder. It need not exist."""
  return Path(os.environ.get("TINYTPU_CACHE") or user_cache_dir("tinytpu")).absolute()


def find(name: str) -> Path | None:
  """Path of the file `name` (relative, with `/`), in the cache or this process's temporary folder; None if there is none that may
  be trusted."""
  for path in _places(name):
    if contents(path) is not None:
      return path
  return None


def read(name: str) -> bytes | None:
  """What `keep` was given as the file `name`; None if there is none that may be trusted."""
  return next((data for path in _places(name) if (data := contents(path)) is not None), None)


def contents(path: Path) -> bytes | None:
  """Contents of a file of the cache without its seal; None if it may not be trusted."""
  try:
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # a pipe in its place must not block
      status = os.fstat(file.fileno())
      if not stat.S_ISREG(status.st_mode) or status.st_mode & stat.S_IWOTH or status.st_uid not in _owners():
        return None
      data = file.read()
  except OSError:
    return None
  return data[:-_SEAL] if data.endswith(_seal(path.name, memoryview(data)[:-_SEAL])) else None


def keep(name: str, data: bytes) -> Path:
  """Write the file `name`; its path, in the cache or, if that cannot be written, in this process's temporary folder.

  Raises:
    OSError: neither can be written.
  """
  target = root() / name
  try:
    _write(target, data)
  except OSError as error:
    target = scratch() / name
    if root() not in _warned:
      _warned.add(root())
      logging.getLogger("tinytpu").warning("the cache %s cannot be written (%s): what is built serves this process only; "
                                           "TINYTPU_CACHE names another folder", root(), error.strerror or error)
    _write(target, data)
  return target


def scratch() -> Path:
  """A temporary folder of this process, removed at its end; those of processes that were killed are removed now."""
  if (pid := os.getpid()) not in _scratch:
    sweep(Path(tempfile.gettempdir()), f"{_PREFIX}*")
    while True:
      path = Path(tempfile.mkdtemp(prefix=_PREFIX))
      try:
        if _lock(path, os.O_RDONLY) is not None:  # held to the end of the process
          break
      except OSError:  # no locks here: nobody sweeps either
        break
    _scratch[pid] = path
    atexit.register(lambda: shutil.rmtree(path, ignore_errors=True) if os.getpid() == pid else None)
  return _scratch[pid]


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
  """Exclusive among processes, so that one builds and the others wait. Where locking is impossible all of them build: that does no
  harm, and none waits."""
  path, file = (root() / name).with_suffix(".lock"), None
  with contextlib.suppress(OSError):
    path.parent.mkdir(parents=True, exist_ok=True)
    sweep(path.parent, "*.lock", "*.new", "build-*")
    while (file := _lock(path, os.O_RDWR | os.O_CREAT)) is None:
      pass
  try:
    yield
  finally:
    if file is not None:
      with contextlib.suppress(OSError):
        path.unlink()
      os.close(file)


def sweep(folder: Path, *patterns: str) -> None:
  """Remove what processes left behind that were killed: files and folders whose lock nobody holds, and which are this user's."""
  for path in [path for pattern in patterns for path in folder.glob(pattern)]:
    with contextlib.suppress(OSError):
      if (file := _lock(path, os.O_RDONLY | os.O_NONBLOCK, fcntl.LOCK_NB)) is not None:
        try:
          if os.fstat(file).st_uid == os.geteuid():
            _remove(path)
        finally:
          os.close(file)


def _lock(path: Path, flags: int, wait: int = 0) -> int | None:
  """File descriptor of `path`, locked; None if it has been removed meanwhile.

  Raises:
    OSError: it cannot be opened or locked, or another holds it (BlockingIOError, with `wait` LOCK_NB).
  """
  file = os.open(path, flags, 0o666)
  try:
    fcntl.flock(file, fcntl.LOCK_EX | wait)
    if os.path.samestat(os.fstat(file), os.stat(path)):
      return file
  except FileNotFoundError:
    pass
  except OSError:
    os.close(file)
    raise
  os.close(file)
  return None


def _places(name: str) -> list[Path]:
  return [place / name for place in (root(), _scratch.get(os.getpid())) if place]


def _owners() -> set[int]:
  """Users whose files are trusted: this one, root, and the owner of the cache, so that several users can share one."""
  owners = {os.geteuid(), 0}
  with contextlib.suppress(OSError):
    owners.add(root().stat().st_uid)
  return owners


def _seal(name: str, data: bytes | memoryview) -> bytes:
  digest = hashlib.sha256(name.encode() + b"\0")
  digest.update(data)
  return _MAGIC + digest.digest()


def _write(target: Path, data: bytes) -> None:
  """Replace `target` by a sealed file, whatever is in its place; as readable as the user's umask says, writable not by everyone."""
  target.parent.mkdir(parents=True, exist_ok=True)
  new = target.with_name(f"{target.name}-{secrets.token_hex(8)}.new")
  file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o664)
  try:
    with open(file, "wb") as stream:
      with contextlib.suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_EX)  # tells `sweep` that somebody is at work
      stream.write(data)
      stream.write(_seal(target.name, data))
      stream.flush()
      if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
      os.replace(new, target)
  except BaseException:
    with contextlib.suppress(OSError):
      os.unlink(new)
    raise


def _remove(path: Path) -> None:
  if path.is_dir() and not path.is_symlink():
    shutil.rmtree(path, ignore_errors=True)
  else:
    path.unlink()
