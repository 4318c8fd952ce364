"""Files kept between processes: what is damaged, misplaced or somebody else's is as good as absent; what cannot be written does no harm."""
from __future__ import annotations

import errno
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.damage import DAMAGES, NOBODY, damage, open_folder, read_only
from tinytpu import cache

ROOT = Path(__file__).parents[1]
NAME, DATA = "iss/key/run.code", bytes(range(256)) * 40


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
  """An empty cache, and no temporary folder of this process yet."""
  monkeypatch.setenv("TINYTPU_CACHE", str(tmp_path / "cache"))
  monkeypatch.setattr(cache, "_warned", set())
  monkeypatch.setattr(cache, "_scratch", {})
  return tmp_path / "cache"


def in_scratch(path: Path) -> bool:
  return path == cache.scratch() / NAME


def test_what_is_kept_is_found(folder):
  assert cache.find(NAME) is None and cache.read(NAME) is None and not folder.exists()
  path = cache.keep(NAME, DATA)
  assert path == folder / NAME == cache.find(NAME) and cache.read(NAME) == cache.contents(path) == DATA
  assert cache.read("iss/key/other.code") is None
  cache.keep(NAME, b"")
  assert cache.read(NAME) == b"" and [p.name for p in folder.rglob("*") if p.is_file()] == ["run.code"]


def test_the_root_is_named_by_the_environment(monkeypatch, folder):
  assert cache.root() == folder
  monkeypatch.delenv("TINYTPU_CACHE")
  monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
  assert cache.root() == folder / "tinytpu"


@pytest.mark.parametrize("kind", DAMAGES)
def test_damage_is_seen_and_mended(kind):
  path = cache.keep(NAME, DATA)
  damage(path, kind)
  assert cache.find(NAME) is None and cache.read(NAME) is None
  assert cache.keep(NAME, DATA) == path and cache.read(NAME) == DATA


def test_every_byte_counts():
  path = cache.keep(NAME, b"some data")
  whole = path.read_bytes()
  for i in range(len(whole)):
    path.write_bytes(whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1:])
    assert cache.read(NAME) is None, i
    path.write_bytes(whole[:i])
    assert cache.read(NAME) is None, i
  path.write_bytes(whole)
  assert cache.read(NAME) == b"some data"


def test_a_file_under_another_name(folder):
  """A library of another configuration, say, moved to the name of this one."""
  other = cache.keep("iss/key/other.code", DATA)
  os.rename(other, folder / NAME)
  assert cache.read(NAME) is None


@pytest.mark.parametrize("umask,mode", [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664), (0o000, 0o664)])
def test_permissions_are_the_umasks(umask, mode):
  before = os.umask(umask)
  try:
    path = cache.keep(NAME, DATA)
  finally:
    os.umask(before)
  assert path.stat().st_mode & 0o777 == mode and cache.read(NAME) == DATA


def test_a_file_that_everyone_may_write_is_not_trusted():
  cache.keep(NAME, DATA).chmod(0o666)
  assert cache.read(NAME) is None


OTHER_USER = """
import sys
from tests.damage import drop_rights
from tinytpu import cache
cache.root()
drop_rights()
print(cache.read(sys.argv[1]) == bytes(range(256)) * 40, cache.root() in cache.keep("new", b"").parents, cache.read("new") == b"")"""


def other_user() -> subprocess.CompletedProcess[str]:
  return subprocess.run([sys.executable, "-c", OTHER_USER, NAME], capture_output=True, text=True, check=False, cwd=ROOT)


@pytest.fixture
def shared(monkeypatch) -> Iterator[Path]:
  """A cache that other users can reach, with one file in it."""
  with open_folder() as folder:
    monkeypatch.setenv("TINYTPU_CACHE", str(folder))
    cache.keep(NAME, DATA)
    yield folder


def test_a_shared_cache(shared):
  """Another user reads what the owner of the cache keeps, and works in a temporary folder where writing is refused."""
  read_only(shared)
  result = other_user()
  assert result.stdout == "True False True\n", result.stderr
  assert result.stderr == (f"the cache {shared} cannot be written (Permission denied): what is built serves this process only; "
                           "TINYTPU_CACHE names another folder\n")


def test_an_unreadable_file_in_a_shared_cache(shared):
  (shared / NAME).chmod(0)
  read_only(shared)
  result = other_user()
  assert result.stdout == "False False True\n", result.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_another_user_is_not_trusted(folder):
  path = cache.keep(NAME, DATA)
  os.chown(path, NOBODY, -1)
  assert cache.read(NAME) is None
  os.chown(folder, NOBODY, -1)  # the cache's own user
  assert cache.read(NAME) == DATA


def test_missing_parents_are_made(monkeypatch, tmp_path):
  monkeypatch.setenv("TINYTPU_CACHE", str(tmp_path / "a" / "b" / "c"))
  assert cache.keep(NAME, DATA) == tmp_path / "a" / "b" / "c" / NAME


@pytest.mark.parametrize("place", ["", "iss", "iss/key"])
def test_a_file_in_place_of_a_folder(place, folder, caplog):
  (folder / place).parent.mkdir(parents=True, exist_ok=True)
  (folder / place).write_text("in the way")
  assert in_scratch(cache.keep(NAME, DATA)) and cache.read(NAME) == DATA
  assert in_scratch(cache.keep(NAME, DATA[1:])) and cache.read(NAME) == DATA[1:]
  with cache.locked(NAME):
    pass
  assert [r.levelno for r in caplog.records] == [logging.WARNING], "said once"
  assert len(caplog.messages[0].splitlines()) == 1 and str(folder) in caplog.messages[0]


def test_a_full_disk(monkeypatch, folder, caplog):
  write = cache._write

  def full(target: Path, data: bytes) -> None:
    if folder in target.parents:
      raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    write(target, data)

  monkeypatch.setattr(cache, "_write", full)
  assert in_scratch(cache.keep(NAME, DATA)) and cache.read(NAME) == DATA
  assert "No space left on device" in caplog.text
  monkeypatch.setattr(cache, "_write", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
  with pytest.raises(OSError, match="full"):
    cache.keep(NAME, DATA)


def test_a_write_that_fails_leaves_nothing(monkeypatch, folder):
  cache.keep(NAME, DATA)
  monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(errno.EIO, "broken")))
  with pytest.raises(OSError):
    cache._write(folder / NAME, b"new")
  assert cache.read(NAME) == DATA and [p.name for p in folder.rglob("*") if p.is_file()] == ["run.code"]


HOLDER = """
import sys, time
from tinytpu import cache
with cache.locked("rtl/killed.so"):
  new = cache.root() / "rtl" / "half.so-0123.new"
  file = new.open("w"); cache.fcntl.flock(file, cache.fcntl.LOCK_EX)
  print(cache.scratch(), flush=True)
  time.sleep(600)"""


def names(folder: Path) -> set[str]:
  return {p.name for p in folder.iterdir()}


def test_leftovers_of_killed_processes(folder):
  """They stay while their process lives, and go with the next build."""
  process = subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True)
  assert process.stdout is not None
  temporary = Path(process.stdout.readline().strip())
  (folder / "rtl" / "build-old").mkdir()
  (folder / "rtl" / "build-old" / "chip.cpp").write_text("of an earlier version")
  with cache.locked("rtl/mine.so"):
    assert names(folder / "rtl") == {"killed.lock", "half.so-0123.new", "mine.lock"}
  cache.scratch()
  assert temporary.exists()
  process.send_signal(signal.SIGKILL)
  process.wait()
  process.stdout.close()
  with cache.locked("rtl/mine.so"):
    assert names(folder / "rtl") == {"mine.lock"}
  assert names(folder / "rtl") == set()
  cache._scratch.clear()
  cache.scratch()
  assert not temporary.exists()


BUILDER = """
import sys, time
from tinytpu import cache
with cache.locked("rtl/one.so"):
  if cache.find("rtl/one.so") is None:
    print("built", flush=True)
    time.sleep(1)
    cache.keep("rtl/one.so", b"library")"""


def test_sweeping_keeps_to_our_own(monkeypatch, tmp_path):
  """A folder of the user's in the temporary folder stays, whatever it is called after."""
  monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
  for name in ("tinytpu-results", "tinytpu", "scratch."):
    (tmp_path / name).mkdir()
  (tmp_path / "tinytpu-scratch.dead").mkdir()
  assert cache.scratch().parent == tmp_path
  assert names(tmp_path) == {"tinytpu-results", "tinytpu", "scratch.", cache.scratch().name}


def test_one_builds_and_the_others_wait(folder):
  processes = [subprocess.Popen([sys.executable, "-c", BUILDER], stdout=subprocess.PIPE, text=True) for _ in range(4)]
  assert sorted(process.communicate()[0] for process in processes) == ["", "", "", "built\n"]
  assert names(folder / "rtl") == {"one.so"}


def test_a_forked_child_has_a_temporary_folder_of_its_own():
  mine = cache.scratch()
  script = f"""
import os, sys, time
from tinytpu import cache
mine = cache.scratch()
child = os.fork()
if not child:
  print(cache.scratch() != mine, mine.exists(), flush=True)
  sys.exit()
os.waitpid(child, 0)
print(mine.exists(), mine != {str(mine)!r})"""
  result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
  assert result.stdout == "True True\nTrue True\n"
  assert mine.exists()
