"""The set-up installs what ``requirements.lock`` lists, whatever has been published since."""

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

BACKEND = '''
"""A build backend that needs nothing installed: the editable wheel is one file that names the command."""
import zipfile

def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    name = "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(f"{wheel_directory}/{name}", "w") as wheel:
        wheel.writestr("tiny.py", "def main():\\n    import wire, frames\\n    print(wire.VERSION, frames.VERSION)\\n")
        wheel.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: tiny\\nVersion: 1.0\\n")
        wheel.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("tiny-1.0.dist-info/entry_points.txt", "[console_scripts]\\ndecoevo = tiny:main\\n")
        wheel.writestr("tiny-1.0.dist-info/RECORD", "")
    return name
'''
"""``decoevo`` of a project that imports what an extra of its dependency brings."""

PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "tiny"
version = "1.0"
dependencies = ["client"]
"""


def publish(index: Path, name: str, version: str, *, needs: tuple[str, ...] = (), extra: str = "") -> str:
    """Put a wheel of one module into the index and give its line of a lock."""
    wheel = index / f"{name}-{version}-py3-none-any.whl"
    about = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += f"Provides-Extra: {extra}\n" if extra else ""
    metadata += "".join(f"Requires-Dist: {need}\n" for need in needs)
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr(f"{name}.py", f'VERSION = "{version}"\n')
        file.writestr(f"{about}/METADATA", metadata)
        file.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{about}/RECORD", "")
    return f"{name}=={version} --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with this Makefile and a lock: ``client`` needs ``wire[frames]``; 2.0 came out later."""
    index = tmp_path / "index"
    index.mkdir()
    lock = publish(index, "client", "1.0", needs=("wire[frames]<3",))
    lock += publish(index, "wire", "1.0", needs=('frames ; extra == "frames"',), extra="frames")
    lock += publish(index, "frames", "1.0")
    publish(index, "wire", "2.0", needs=('frames ; extra == "frames"',), extra="frames")
    publish(index, "frames", "1.1")
    place = tmp_path / "project"
    place.mkdir()
    shutil.copy(ROOT / "Makefile", place)
    (place / "requirements.lock").write_text(lock, encoding="utf-8")
    (place / "pyproject.toml").write_text(PROJECT, encoding="utf-8")
    (place / "backend.py").write_text(BACKEND, encoding="utf-8")
    return place


def only(index: Path) -> Mapping[str, str]:
    """An environment in which pip and uv know this index and no settings of the machine."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PIP_", "UV_", "MAKE", "MFLAGS"))}
    return clean | {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(index),
        "PIP_CONFIG_FILE": os.devnull,
        "UV_NO_INDEX": "1",
        "UV_FIND_LINKS": str(index),
        "UV_NO_CONFIG": "1",
        "UV_OFFLINE": "1",
    }


def made(project: Path) -> subprocess.CompletedProcess[str]:
    """What ``make`` says and gives when asked for the project's environment."""
    command = ["make", ".venv/.ready", f"PYTHON={sys.executable}"]
    return subprocess.run(command, cwd=project, env=only(project.parent / "index"), capture_output=True, text=True)


def printed(project: Path) -> str:
    """What the project's command prints: the versions that it found."""
    return subprocess.run([project / ".venv/bin/decoevo"], capture_output=True, text=True, check=True).stdout.strip()


def change(file: Path, old: str, new: str) -> None:
    """Replace what must be there."""
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def test_lock_installs_when_newer_versions_are_out(project: Path):
    """A release published after the lock changes nothing, and what is printed on the way is one line."""
    run = made(project)
    assert run.returncode == 0, run.stdout + run.stderr
    assert printed(project) == "1.0 1.0"
    assert run.stdout.count("\n") == 1, run.stdout
    assert run.stdout.startswith("Setting up .venv: 3 packages")


def test_resolving_would_fail(project: Path):
    """The index shows the fault: where pip may resolve, it meets the newer version through the extra and refuses."""
    change(project / "Makefile", "--no-deps --require-hashes", "--require-hashes")
    run = made(project)
    assert run.returncode != 0
    assert "must have their versions pinned" in run.stderr


def test_incomplete_lock_is_refused(project: Path):
    """What the lock leaves out is named, and the environment is not taken for a made one."""
    lock = project / "requirements.lock"
    lines = lock.read_text(encoding="utf-8").splitlines(keepends=True)
    lock.write_text("".join(line for line in lines if not line.startswith("wire")), encoding="utf-8")
    run = made(project)
    assert run.returncode != 0
    assert "client 1.0 requires wire" in run.stdout
    assert not (project / ".venv/.ready").exists()


def test_half_made_environment_is_repaired(project: Path):
    """The same command mends a set-up that ended in the middle of a package, and a folder that was moved."""
    assert made(project).returncode == 0
    (project / ".venv/.ready").unlink()
    (site,) = (project / ".venv/lib").glob("python*/site-packages")
    (site / "frames.py").unlink()
    assert made(project).returncode == 0
    assert printed(project) == "1.0 1.0"
    moved = project.rename(project.with_name("moved"))
    assert made(moved).returncode == 0
    assert printed(moved) == "1.0 1.0"


def test_uv_takes_the_lock(project: Path):
    """``uv pip sync`` installs the same."""
    env = only(project.parent / "index")
    venv = project / "other"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    sync = [sys.executable, "-m", "uv", "pip", "sync", "--require-hashes", "--python", venv, "requirements.lock"]
    run = subprocess.run(sync, cwd=project, env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    code = "import wire, frames; print(wire.VERSION, frames.VERSION)"
    found = subprocess.run([venv / "bin/python", "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["1.0", "1.0"]
