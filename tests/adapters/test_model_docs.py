"""What docs/howto/torch.md and docs/howto/jax.md show is run here, so that it cannot go stale."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def blocks(name):
    return re.findall(r"```python\n(.*?)```", (DOCS / name).read_text(), flags=re.S)


BLOCKS = {f"{name} {k}": block for name in ("torch.md", "jax.md") for k, block in enumerate(blocks(name), 1)}
PRINTED = {
    "torch.md 1": r"OrderedDict\(\{?\[?\(?'weight'",
    "torch.md 2": r"^$",
    "jax.md 1": r"\{'level': Array\((1\.9|2\.0)",
    "jax.md 2": r"\[\[",
    "jax.md 3": r"\[\[",
}


@pytest.mark.parametrize("name", BLOCKS)
def test_a_program_of_a_page_runs(tmp_path, name):
    (tmp_path / "program.py").write_text(BLOCKS[name])
    done = subprocess.run([sys.executable, "program.py"], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert re.search(PRINTED[name], done.stdout), done.stdout
