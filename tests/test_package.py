"""The package as a whole: layers, file sizes, style, types, generated pages, and what an installation contains."""
from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from dataclasses import fields
from pathlib import Path

import pytest

import tinytpu
from tinytpu.config import PRESETS, Config
from tinytpu.docs.reference import PAGES, config_page

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "tinytpu"
SOURCES = sorted(PACKAGE.rglob("*.py"))

LAYERS: dict[str, set[str]] = {  # part of the package: the parts that it may import
  "config": set(),
  "environment": set(),
  "cache": set(),
  "isa": {"config"},
  "asm": {"config", "isa"},
  "iss": {"config", "cache", "isa"},
  "rtl": {"config", "cache", "isa"},
  "prove": {"config", "isa", "rtl"},
  "trace": {"config", "isa"},
  "machine": {"config", "cache", "isa", "asm", "iss", "rtl", "trace"},
  "backend": {"config", "environment", "cache", "isa", "asm", "machine", "trace"},
  "profile": {"config", "environment", "isa", "asm", "trace", "machine", "backend"},
  "docs": {"config", "isa", "asm", "rtl", "trace", "machine", "backend", "profile"},
  "boot": {"environment", "backend", "profile"},
  "fuzz": {"config", "isa", "asm", "machine", "trace"},
  "demo": {"config", "isa", "asm", "machine", "backend"},
  "onnx": {"config", "isa", "machine", "backend", "boot"},
  "cli": {"config", "environment", "cache", "isa", "asm", "iss", "rtl", "machine", "trace", "backend", "profile", "docs", "boot", "fuzz",
          "demo", "onnx"},
}


ROOMS: dict[str, set[str]] = {  # of the backend: the rooms that each may import; files beside the rooms count as one
  "errors": set(),
  "patch": set(),
  "origins": {"patch"},
  "types": set(),
  "uops": {"types"},
  "intervals": {"uops"},
  "mir": set(),
  "opt": {"types", "uops"},
  "decomp": {"types", "uops", "intervals"},
  "lower": {"errors", "types", "uops", "intervals", "mir"},
  "scratch": {"types", "uops", "mir", "lower"},
  "emit": {"errors", "mir"},
  "runtime": {"types"},
  "kept": {"origins", "mir", "runtime"},
  "hooks": {"patch", "kept", "types", "uops", "opt", "decomp", "lower"},
  "renderer": {"errors", "origins", "types", "uops", "mir", "opt", "decomp", "lower", "scratch", "emit", "hooks"},
  "device": {"mir", "emit", "runtime", "renderer"},
}


def part_of(module: str) -> str:
  """The part of the package that a dotted module name lies in; "" for the package itself."""
  return (module.split(".") + [""])[1]


def imports(path: Path, typing: bool = True) -> set[str]:
  """Modules of the package that a source file imports, anywhere in it; those for annotations alone (under TYPE_CHECKING) with `typing`."""
  module = list(path.relative_to(ROOT).with_suffix("").parts)
  package = module[:-1]
  found: set[str] = set()
  tree = ast.parse(path.read_text())
  if not typing:
    tree.body = [node for node in tree.body if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")]
  for node in ast.walk(tree):
    if isinstance(node, ast.Import):
      found |= {alias.name for alias in node.names}
    elif isinstance(node, ast.ImportFrom):
      base = package[:len(package) - node.level + 1] if node.level else []
      name = ".".join([*base, *([node.module] if node.module else [])])
      found |= {f"{name}.{alias.name}" for alias in node.names} if name in ("tinytpu", "tinytpu.backend") else {name}
  return {name for name in found if name.split(".")[0] == "tinytpu"}


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_downwards(path: Path) -> None:
  part = part_of(".".join(path.relative_to(ROOT).with_suffix("").parts))
  if part == "__init__":
    assert not imports(path), "the package itself imports nothing, so that Python starts quickly"
    return
  assert part in LAYERS, f"{part} is a new part: give it a place in LAYERS"
  known = set(LAYERS) | {"", "__version__"}
  for name in imports(path):
    target = part_of(name)
    assert target in known, f"{name}: no such part"
    assert target in LAYERS[part] | {part, "", "__version__"}, f"{part} must not import {target}"


BACKEND = PACKAGE / "backend"


@pytest.mark.parametrize("path", [p for p in SOURCES if p.is_relative_to(BACKEND) and p.name != "__init__.py"],
                         ids=lambda p: str(p.relative_to(BACKEND)))
def test_rooms_of_the_backend_follow_the_way_of_a_kernel(path: Path) -> None:
  room = path.relative_to(BACKEND).with_suffix("").parts[0]
  assert room in ROOMS, f"{room} is a new room: give it a place in ROOMS"
  for name in imports(path, typing=False):
    if name.startswith("tinytpu.backend."):
      target = name.split(".")[2]
      assert target in ROOMS[room] | {room}, f"{room} must not import {target}"


def test_the_walk_sees_imports_in_functions() -> None:
  assert "tinytpu.iss" in {name[:11] for name in imports(PACKAGE / "machine" / "base.py") | imports(PACKAGE / "machine" / "iss.py")}
  assert "tinytpu.rtl.compiler" in imports(PACKAGE / "cli" / "checks.py")


@pytest.mark.parametrize("layers", [LAYERS, ROOMS], ids=["package", "backend"])
def test_layers_have_no_cycle(layers: dict[str, set[str]]) -> None:
  order = list(layers)
  for part, below in layers.items():
    assert all(order.index(target) < order.index(part) for target in below), part


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_files_stay_small(path: Path) -> None:
  assert len(path.read_text().splitlines()) <= 400


def tool(*command: str) -> None:
  result = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False)
  assert result.returncode == 0, result.stdout + result.stderr


def test_style() -> None:
  tool("ruff", "check", ".")


def test_types() -> None:
  tool("mypy")


@pytest.mark.parametrize("name", PAGES)
def test_generated_pages_are_up_to_date(name: str) -> None:
  assert (ROOT / "docs" / name).read_text(encoding="utf-8") == PAGES[name](), "run `tinytpu docs`"


def test_the_page_of_parameters_names_every_field() -> None:
  page = config_page()
  for f in fields(Config):
    assert f.name == "name" or f"| `{f.name}` | " in page and f"{getattr(PRESETS['8x8'], f.name):,}" in page


def anchors(page: Path) -> set[str]:
  """What links may name behind `#` in a page: its headings, as GitHub writes them."""
  text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
  return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}


def test_links_between_pages_lead_somewhere() -> None:
  for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text()):
      place = page.parent / target if target else page
      assert place.exists(), f"{page.name}: {target}"
      assert not anchor or place.suffix != ".md" or anchor in anchors(place), f"{page.name}: {target}#{anchor}"


@pytest.mark.parametrize("page", [
  "README.md", *(f"docs/{name}.md" for name in ("map", "architecture", "asm", "backend", "cli", "config", "models")),
  *(f"docs/tour/{page.name}" for page in (ROOT / "docs" / "tour").glob("*.md"))])
def test_files_that_pages_name_exist(page: str) -> None:
  places = [ROOT, PACKAGE, PACKAGE / "isa", PACKAGE / "rtl", BACKEND, *(p for p in BACKEND.iterdir() if p.is_dir())]
  for name in re.findall(r"`([\w/]+(?:/|\.py))`", (ROOT / page).read_text()):
    assert any((place / name).exists() for place in places), f"{page}: {name}"


def test_versions_agree_and_are_pinned() -> None:
  project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
  assert project["version"] == tinytpu.__version__
  assert f"## {tinytpu.__version__}" in (ROOT / "CHANGELOG.md").read_text()
  extras = project["optional-dependencies"].values()
  assert all(line.count("==") == 1 for lines in (project["dependencies"], *extras) for line in lines)


# -- installations ----------------------------------------------------------------------------------

@pytest.fixture(scope="session", params=["wheel", "editable"])
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
  """Python of a fresh environment with TinyTPU installed as a wheel or editable; it sees the dependencies of this one."""
  folder = tmp_path_factory.mktemp(request.param)
  script = f"import hatchling.build as b; b.build_{request.param}({str(folder)!r})"
  subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, capture_output=True)
  wheel, = folder.glob("*.whl")
  subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
  python = folder / "venv" / "bin" / "python"
  library = next((folder / "venv" / "lib").glob("python*/site-packages"))
  with zipfile.ZipFile(wheel) as archive:  # a wheel of pure Python is installed by unpacking it
    archive.extractall(library)
  (library / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
  return python


def run(python: Path, code: str, **environment: str) -> subprocess.CompletedProcess[str]:
  """Run code in an environment, away from the source tree."""
  clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON") and key != "DEV"}
  return subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=False, cwd=python.parent, env=clean | environment)


def test_boot_hook_runs_at_start(installed: Path) -> None:
  result = run(installed, "import sys; print('tinytpu.boot' in sys.modules, 'numpy' in sys.modules, 'tinygrad' in sys.modules)")
  assert (result.stdout, result.stderr) == ("True False False\n", "")


@pytest.mark.parametrize("dev", ["TINYTPU", "TINYTPU::4x4"])
def test_tinygrad_finds_the_device(installed: Path, dev: str) -> None:
  """A wheel's copy of the simulator is compiled anew, as on a user's machine: in a cache of its own, not to fill the user's."""
  code = "from tinygrad import Device, Tensor; print(Device.DEFAULT, (Tensor([1, 2, 3]) + 1).tolist())"
  cache = {"XDG_CACHE_HOME": str(installed.parents[2] / "cache")} if "wheel" in str(installed) else {}
  result = run(installed, code, DEV=dev, **cache)
  assert result.stdout == "TINYTPU [2, 3, 4]\n", result.stdout + result.stderr


def test_a_broken_boot_module_does_not_break_python(tmp_path: Path) -> None:
  line = (PACKAGE / "tinytpu_boot.pth").read_text()
  assert line.count("\n") == 1 and line.startswith("import ")
  subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
  python = tmp_path / "venv" / "bin" / "python"
  library = next((tmp_path / "venv" / "lib").glob("python*/site-packages"))
  (library / "tinytpu_boot.pth").write_text(line)
  report = "import sys; print(type(sys.tinytpu_boot_error).__name__)"
  result = run(python, report)
  assert (result.stdout, result.stderr) == ("ModuleNotFoundError\n", "")
  (library / "tinytpu").mkdir()
  (library / "tinytpu" / "__init__.py").touch()
  (library / "tinytpu" / "boot.py").write_text("1 / 0")
  result = run(python, report)
  assert (result.stdout, result.stderr) == ("ZeroDivisionError\n", "")


def test_wheel_holds_every_file_of_the_package(tmp_path: Path) -> None:
  subprocess.run([sys.executable, "-c", f"import hatchling.build as b; b.build_wheel({str(tmp_path)!r})"], cwd=ROOT, check=True,
                 capture_output=True)
  wheel, = tmp_path.glob("*.whl")
  names = set(zipfile.ZipFile(wheel).namelist())
  files = {str(p.relative_to(ROOT)) for p in PACKAGE.rglob("*") if p.is_file() and "__pycache__" not in p.parts}
  assert files - names == {"tinytpu/tinytpu_boot.pth"}  # moved to where Python looks for it:
  assert "tinytpu_boot.pth" in names
