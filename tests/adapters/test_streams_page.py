"""What the page on streams shows, and the example on Redis, are run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from services import RedisServer

from pages import blocks

ROOT = Path(__file__).parents[2]


def output_of(*words, folder):
    ended = subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_the_program_on_parquet_finds_the_mean_of_the_slopes(tmp_path):
    (program,) = blocks("docs/howto/streams.md")
    (tmp_path / "program.py").write_text(program)
    found = output_of("program.py", folder=tmp_path)
    slope, intercept = map(float, re.findall(r"-?[\d.]+", found))
    assert slope == pytest.approx(2.0, abs=0.2)
    assert intercept == pytest.approx(0.0, abs=0.2)


def test_the_example_on_redis_takes_all_readings_and_finds_their_mean(tmp_path):
    with RedisServer(tmp_path) as server:
        found = output_of(str(ROOT / "examples" / "redis_stream.py"), server.url, folder=tmp_path)
    ended, _, level = found.partition(": w = ")
    assert ended == "as many iterations or reports as asked"
    assert abs(float(level.strip("[]\n")) - 2.0) < 0.5  # how near depends on who was how fast
