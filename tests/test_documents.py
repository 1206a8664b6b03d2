"""What the documents show is run here, so that it cannot go stale."""

import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

import siag
from siag.experiments.config import KINDS, RUN

ROOT = Path(__file__).parent.parent


def blocks(name, language="python"):
    """The blocks of a document in a language."""
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / name).read_text(), flags=re.S)


def python(*words, cwd):
    result = subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=cwd, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture
def run_here(tmp_path, monkeypatch, capsys):
    """Runs a program that starts no process in this one, which has imported and compiled much of what it needs."""

    def run(program):
        monkeypatch.chdir(tmp_path)
        path = tmp_path / "program.py"
        path.write_text(program.read_text() if isinstance(program, Path) else program)
        runpy.run_path(str(path), run_name="__main__")
        return capsys.readouterr().out

    return run


@pytest.mark.thorough
def test_the_readmes_program_has_twelve_lines_and_runs(tmp_path, run_here):
    _, program = blocks("README.md")
    assert len(program.splitlines()) == 12
    output = run_here(program)
    siag_line, sgd_line, law_line = output.splitlines()
    errors = [float(re.search(r"exactly (\S+)", line).group(1)) for line in (siag_line, sgd_line)]
    law = float(law_line.split()[-1])
    assert errors[0] == pytest.approx(law, rel=0.1)
    assert errors[1] > 10 * errors[0]
    assert siag.load(tmp_path / "run.npz").repeats == 20


@pytest.mark.thorough
def test_the_first_program_of_the_readme_names_neither_method_nor_step_and_finds_what_it_says(run_here):
    program, _ = blocks("README.md")
    assert not re.search(r"method|step", program)
    clock = "np.zeros(3), runtime=siag.Simulated(seed=1))"  # however busy the machine is
    here = program.replace("np.zeros(3))", clock).replace("sales=5000", "sales=1000")  # a fifth of the time
    assert "sales=1000" in here
    assert run_here(here).strip() == re.search(r"# (\[.*\]):", program).group(1)


EXAMPLES = (
    "heavy_ball.py",
    "python_gradient.py",
    "own_problem.py",
    "own_activity.py",
    "own_stream.py",
    "own_transport.py",
)
DOCUMENTS = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/explanation/design.md",
    "docs/howto/experiments.md",
    "docs/reference/glossary.md",
    "docs/howto/live.md",
    "docs/reference/methods.md",
    "docs/howto/streams.md",
)


def test_contributing_shows_the_example_files_to_the_letter():
    assert blocks("CONTRIBUTING.md") == [(ROOT / "examples" / name).read_text() for name in EXAMPLES]


@pytest.mark.parametrize("name", EXAMPLES[:-1])
def test_a_part_of_your_own_takes_about_forty_lines(name):
    definition = (ROOT / "examples" / name).read_text().split('if __name__ == "__main__":')[0]
    assert len([line for line in definition.splitlines() if line.strip()]) <= 40


@pytest.mark.thorough
def test_a_new_method_in_one_file_works_without_touching_the_package(run_here):
    output = run_here(ROOT / "examples" / "heavy_ball.py")
    before, after = map(float, re.findall(r"[\d.e-]+", output.split("error")[1]))
    assert after < 1e-3 * before


@pytest.mark.thorough
def test_the_examples_own_problem_finds_the_mean_level(run_here):
    assert "found [5. 6.]" in run_here(ROOT / "examples" / "own_problem.py")


@pytest.mark.thorough
def test_the_examples_python_gradient_lowers_the_objective(run_here):
    before, after = map(float, re.findall(r"\d\.\d+", run_here(ROOT / "examples" / "python_gradient.py")))
    assert after < 0.8 * before


def test_the_examples_own_activity_obeys_the_sharp_law(run_here):
    output = run_here(ROOT / "examples" / "own_activity.py")
    exact, law = (float(re.search(rf"{name} (\S+?),?\s", output + " ").group(1)) for name in ("error", "law"))
    assert exact == pytest.approx(law, rel=0.02)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["own_stream.py", "own_transport.py"])
def test_the_examples_own_stream_and_transport_find_the_mean_level(tmp_path, name):
    """Harmonic steps leave an error of about 0.01."""
    assert "asked: w = [2.]" in python(str(ROOT / "examples" / name), cwd=tmp_path)


@pytest.mark.thorough
def test_the_rehearsal_of_the_live_page_runs(run_here):
    (program,) = blocks("docs/howto/live.md")
    assert run_here(program).startswith("w = [2.] after 1.3 hours")


def test_the_program_of_the_page_on_the_dashboard_runs(run_here):
    (program,) = blocks("docs/howto/dashboard.md")
    run_here(program)


def test_the_sweep_of_the_page_on_experiments_runs(run_here):
    (program,) = blocks("docs/howto/experiments.md")
    assert run_here(f"import matplotlib\n\nmatplotlib.use('Agg')\n{program}").startswith(
        "Sweep of 6 runs, 4 repeats each"
    )


@pytest.mark.parametrize(("page", "name"), [("experiments", "live"), ("live", "rehearsal")])
def test_a_page_shows_a_file_for_a_live_run_to_the_letter(page, name):
    (shown,) = blocks(f"docs/{page}.md", "toml")
    assert (ROOT / "examples" / f"{name}.toml").read_text().endswith(f"\n\n{shown}")


def test_the_example_file_is_a_valid_experiment():
    from siag.experiments.config import build

    tables = tomllib.loads((ROOT / "examples" / "nonuniform.toml").read_text())
    assert build(tables).options["iterations"] == 20_000


def test_the_table_of_kinds_names_every_kind_and_every_option():
    text = (ROOT / "docs" / "howto" / "experiments.md").read_text()
    for kinds in KINDS.values():
        for kind in kinds:
            assert f"`{kind}`" in text
    for option in RUN:
        assert f"`{option}`" in text


def headings(path):
    """As links name them."""
    found = re.findall(r"^#+ (.*)$", path.read_text(), flags=re.M)
    return [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found]


@pytest.mark.parametrize("name", [*DOCUMENTS, "docs/explanation/theory.md"])
def test_every_file_and_heading_a_document_points_to_exists(name):
    here = ROOT / name
    for target, heading in re.findall(r"\]\((?!http)([^)#]*)(?:#([^)]+))?\)", here.read_text()):
        there = here.parent / target if target else here
        assert there.exists(), target
        assert not heading or heading in headings(there), heading


@pytest.mark.parametrize("name", sorted({*DOCUMENTS, *(f"docs/{path.name}" for path in ROOT.glob("docs/*.md"))}))
def test_lines_of_documents_have_at_most_120_characters(name):
    lines = (ROOT / name).read_text().splitlines()
    assert [number for number, line in enumerate(lines, 1) if len(line) > 120] == []


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "docs/explanation/design.md"])
def test_every_source_file_a_document_names_exists(name):
    """As a path from src/siag, from one of its folders, or from the root; a bare name of a file may be anywhere."""
    known = {str(path.relative_to(ROOT)) for path in (*ROOT.glob("src/**/*"), *ROOT.glob("[a-z]*/**/*"))}
    for named in re.findall(r"`([\w/.]+(?:\.py|/))`", (ROOT / name).read_text()):
        assert any(f"/{path}".endswith(f"/{named.rstrip('/')}") for path in known), named


def test_names_in_the_readmes_table_exist():
    text = (ROOT / "README.md").read_text()
    for dotted in re.findall(r"`siag\.([a-z]\w*(?:\.\w+)*)`", text):
        thing = siag
        for part in dotted.split("."):
            thing = getattr(thing, part)


def test_the_change_log_names_the_commands():
    text = (ROOT / "CHANGELOG.md").read_text()
    for command in ("siag reproduce", "siag run", "siag theory"):
        assert command in text


def test_the_slips_of_the_paper_are_the_same_in_the_docs_and_on_the_page():
    from siag.report.slips import SLIPS

    text = " ".join((ROOT / "docs" / "explanation" / "theory.md").read_text().split())  # the docs break their lines, the page does not
    for number, slip in enumerate(SLIPS, 1):
        assert f"{number}. {slip}" in text


@pytest.mark.thorough
def test_the_shops_of_the_readme_count_the_same_however_often_they_report(tmp_path):
    def slopes(line):
        return [float(x) for x in re.search(r"\[(.*?)\]", line).group(1).split()]

    siag_line, sgd_line = python(str(ROOT / "examples" / "shops.py"), cwd=tmp_path).splitlines()
    shown = (ROOT / "README.md").read_text().split("$ python examples/shops.py\n")[1].splitlines()
    # The standard error of a slope is 0.01, so fewer than one run in 10⁴ is rounded to something else.
    assert re.sub(r"\d+ reports", "… reports", siag_line) == shown[0]
    # SGD's are the mean by how often each reports; a busy machine slows the shop with the short pauses.
    assert slopes(sgd_line) == pytest.approx(slopes(shown[1]), abs=0.25)


def test_every_command_and_option_the_documents_show_exists():
    from siag.cli import siag as group

    for name in ("README.md", "docs/howto/live.md", "docs/howto/experiments.md"):
        text = (ROOT / name).read_text().replace("\\\n", "")
        for line in re.findall(r"^(?:\$ |cd \S+ && )?siag (\w+)(.*)$", text, flags=re.M):
            command, rest = line
            chosen = group.commands[command]
            known = {option for each in chosen.get_params(click.Context(chosen)) for option in each.opts}
            assert set(re.findall(r"(--[\w-]+)", rest)) <= known, line
