"""`make dist`: build the sdist and the wheel, check them, and try the wheel in a clean environment.

Each check is a function that returns what is wrong, in words; nothing is uploaded anywhere.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
MOST_BYTES = 2_000_000  # of either file
NEEDED = (
    *("siag/__init__.py", "siag/py.typed", "siag/report/page.html", "siag/report/page.css", "licenses/LICENSE"),
    *(f"siag/live/monitor/dashboard/page/page.{kind}" for kind in ("html", "css", "js")),
)
UNWANTED = ("__pycache__", ".nbi", ".nbc", ".venv", "/tests/", "tests/test_", ".git/", "benchmarks/")
NOT_OF_THE_CORE = {"ray", "torch", "jax", "pandas", "pytest", "ruff", "mypy", "scikit-learn", "cryptography"}
EXTRAS = {  # a module that each brings
    "tls": "cryptography",
    "dashboard": "starlette",
    "pandas": "pandas",
    "redis": "redis",
    "mqtt": "paho.mqtt.client",
    "polars": "polars",
    "arrow": "pyarrow",
    "kafka": "confluent_kafka",
    "sklearn": "sklearn",
    "river": "river",
    "mlflow": "mlflow",
    "tensorboard": "tensorboard",
    "jax": "jax",
    "ray": "ray",
    "torch": "torch",
}
QUICK = ("tls", "dashboard", "pandas", "redis", "mqtt")
LIVE = """
import siag

if __name__ == "__main__":
    problem = siag.problems.LeastSquares.random(n=2, d=3, p=2, noise=0.1)
    run = siag.train(problem=problem, until=500, progress=False)
    print(bool(run.error[0, -1] < run.error[0, 0]))
"""


def main() -> None:
    """Do all of it; exit with 1 at the first thing that is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--every-extra", action="store_true", help="also the large ones: torch, JAX, Ray and others")
    every = parser.parse_args().every_extra
    shutil.rmtree(DIST, ignore_errors=True)
    tools = [sys.executable, "-m"]
    call(*tools, "build", "--outdir", DIST, ROOT)
    sdist, wheel = next(DIST.glob("*.tar.gz")), next(DIST.glob("*.whl"))
    call(*tools, "twine", "check", "--strict", sdist, wheel)
    refuse_any(wrong_contents(names_in(wheel), NEEDED) + wrong_contents(names_in(sdist), ("pyproject.toml",)))
    refuse_any(too_large(sdist) + too_large(wheel) + wrong_version(wheel))
    try_out(wheel, tuple(EXTRAS) if every else QUICK)
    for file in (sdist, wheel):
        say(f"dist/{file.name}: {file.stat().st_size / 1000:,.0f} kB, checked")


def names_in(file: Path) -> list[str]:
    """The names of all files in an sdist or a wheel."""
    if file.suffix == ".whl":
        with zipfile.ZipFile(file) as archive:
            return archive.namelist()
    with tarfile.open(file) as archive:
        return archive.getnames()


def wrong_contents(names: list[str], needed: tuple[str, ...]) -> list[str]:
    """What is missing among these files, and what does not belong there."""
    missing = [f"{each} is missing" for each in needed if not any(name.endswith(each) for name in names)]
    return missing + [f"{name} does not belong there" for name in names if any(each in name for each in UNWANTED)]


def too_large(file: Path) -> list[str]:
    """Whether a file is larger than it should be."""
    size = file.stat().st_size
    return [f"{file.name} has {size:,} bytes, at most {MOST_BYTES:,} are allowed"] if size > MOST_BYTES else []


def wrong_version(wheel: Path) -> list[str]:
    """Whether the changelog's latest version is another one than the wheel's."""
    latest = latest_version((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    built = wheel.name.split("-")[1]
    return [f"the wheel is {built}, the latest version of CHANGELOG.md is {latest}"] if built != latest else []


def latest_version(changelog: str) -> str:
    """The first version that has a date."""
    found = re.search(r"^## \[([0-9.]+)\] - \d{4}-\d{2}-\d{2}$", changelog, re.MULTILINE)
    return found.group(1) if found else "none"


def try_out(wheel: Path, extras: tuple[str, ...]) -> None:
    """Install the wheel with its core dependencies alone; reproduce and train; then add the extras one by one."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        call(sys.executable, "-m", "venv", folder / "env")
        scripts = folder / "env" / ("Scripts" if sys.platform == "win32" else "bin")
        python = scripts / "python"
        install = (
            python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "-c",
            ROOT / "constraints.txt",
        )
        call(*install, wheel)
        listed = json.loads(output(python, "-m", "pip", "list", "--format", "json", "--disable-pip-version-check"))
        refuse_any([f"the core brings {each['name']}" for each in listed if each["name"].lower() in NOT_OF_THE_CORE])
        say(output(scripts / "siag", "--version").strip())
        say(output(scripts / "siag", "reproduce", "--quick", "--out", folder / "out").strip().splitlines()[-1])
        (folder / "live.py").write_text(LIVE, encoding="utf-8")
        refuse_any([] if output(python, folder / "live.py").strip() == "True" else ["a live run did not learn"])
        say("a live run learns")
        for extra in extras:
            call(*install, f"siag[{extra}] @ {wheel.as_uri()}")
            call(python, "-c", f"import siag, {EXTRAS[extra]}")
            say(f"siag[{extra}] installs, and its module can be imported")


def call(*words: object) -> None:
    """Run a command; end with its words if it fails."""
    output(*words)


def output(*words: object) -> str:
    """What a command prints, run outside the sources so that it cannot import them."""
    line, elsewhere = [str(word) for word in words], tempfile.gettempdir()
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(line, check=False, cwd=elsewhere, env=clean, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"make dist: {' '.join(map(str, words))}\n{done.stdout}{done.stderr}")
    return done.stdout


def refuse_any(wrong: list[str]) -> None:
    """End with all that is wrong, if anything is."""
    if wrong:
        sys.exit("\n".join(f"make dist: {line}" for line in wrong))


def say(line: str) -> None:
    """A line about what has been seen."""
    print(line, flush=True)


if __name__ == "__main__":
    main()
