"""What the documents show is run here, so that it cannot go stale."""

import ast
import doctest
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

import siag
from pages import PAGES, ROOT, blocks, fences, programs, text
from siag.experiments.config import KINDS, RUN


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


ELSEWHERE = {  # programs that need more than the package, and the tests that run them
    "docs/howto/torch.md": "adapters/test_model_docs.py",
    "docs/howto/jax.md": "adapters/test_model_docs.py",
    "docs/tutorials/torch.md": "adapters/test_model_docs.py",
    "docs/tutorials/flights.md": "adapters/test_model_docs.py",
    "docs/howto/river.md": "adapters/test_river_docs.py",
    "docs/howto/tracking.md": "adapters/test_river_docs.py",
    "docs/howto/sklearn.md": "adapters/test_sklearn_docs.py",
    "docs/howto/streams.md": "adapters/test_streams_page.py",
}
RAY = "docs/tutorials/ray.md"
PROGRAMS = {
    f"{name} {k}": program
    for name in PAGES
    if name not in (*ELSEWHERE, RAY, "README.md")  # whose program is that of a tutorial
    for k, program in enumerate(programs(name), 1)
}
VIRTUAL = {  # instead of processes: however busy the machine is; and a fifth of the time
    "np.zeros(3))\n": "np.zeros(3), runtime=siag.Simulated(seed=1))\n",
    "sales=5000": "sales=1000",
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_a_page_runs_and_prints_what_the_page_shows(name, run_here):
    program, source = PROGRAMS[name], PROGRAMS[name].source
    for processes, instead in VIRTUAL.items() if "sales=5000" in source else ():
        assert processes in source
        source = source.replace(processes, instead)
    program.check(run_here(f"import matplotlib\n\nmatplotlib.use('Agg')\n{source}"))


@pytest.mark.ray
def test_the_program_of_the_page_on_ray_runs_and_prints_what_it_shows(tmp_path):
    (program,) = programs(RAY)
    (tmp_path / "program.py").write_text(program.source)
    program.check(python("program.py", cwd=tmp_path))


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name in PAGES if blocks(name, "pycon")])
def test_a_page_shows_what_python_answers(name):
    session = "\n".join(blocks(name, "pycon"))
    said: list[str] = []
    found = doctest.DocTestParser().get_doctest(session, {}, name, str(ROOT / name), 0)
    result = doctest.DocTestRunner(verbose=False).run(found, out=said.append)
    assert result.attempted > 5
    assert not result.failed, "".join(said)


def test_every_block_of_every_page_is_of_a_kind_that_is_tested():
    kinds = {"python", "pycon", "toml", "sh", "text", "{toctree}", "{eval-rst}"}
    for name in PAGES:
        for _, language, body in fences(name):
            assert language in kinds or re.fullmatch(r"\{(literal)?include\} \S+", language), (name, language)
            if language == "python":
                ast.parse(body)
            if language == "text":  # or it would be run by nothing
                assert not re.search(r"^(run = |import |siag )", body, flags=re.M) or "Usage:" in body, (name, body)


def test_programs_that_need_more_than_the_package_are_run_where_that_is_installed():
    assert len(PROGRAMS) >= 6
    for name, test in ELSEWHERE.items():
        assert blocks(name), name
        assert Path(name).name in (ROOT / "tests" / test).read_text(), name


def test_the_first_program_of_the_readme_names_neither_method_nor_step_and_is_that_of_the_tutorial():
    (program,) = blocks("README.md")
    assert not re.search(r"method|step", program)
    first = blocks("docs/tutorials/first_run.md")[0]
    assert re.sub(r"  # \[2\..*", "", program) == first
    assert f"# {programs('docs/tutorials/first_run.md')[0].printed[0].strip()}:" in program


def test_the_readme_is_short_and_begins_with_a_picture():
    lines = text("README.md").splitlines()
    assert len(lines) < 120
    assert any(line.startswith("![") for line in lines[:6])


@pytest.mark.thorough
def test_the_twelve_lines_of_the_first_run_agree_with_the_theory(tmp_path, run_here):
    program = blocks("docs/tutorials/first_run.md")[-1]
    assert len(program.splitlines()) == 12
    siag_line, sgd_line, law_line = run_here(program).splitlines()
    errors = [float(re.search(r"exactly (\S+)", line).group(1)) for line in (siag_line, sgd_line)]
    law = float(law_line.split()[-1])
    assert errors[0] == pytest.approx(law, rel=0.1)
    assert errors[1] > 10 * errors[0]
    assert siag.load(tmp_path / "run.npz").repeats == 20


EXAMPLES = (
    "heavy_ball.py",
    "python_gradient.py",
    "own_problem.py",
    "own_activity.py",
    "own_stream.py",
    "own_transport.py",
)


def test_pages_show_the_example_files_and_those_exist():
    shown = [
        (ROOT / name).parent / language.split()[1]
        for name in PAGES
        for _, language, _ in fences(name)
        if language.startswith("{literalinclude}")
    ]
    assert {path.resolve() for path in shown} == {ROOT / "examples" / name for name in EXAMPLES}


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


@pytest.mark.thorough
def test_the_examples_own_activity_obeys_the_sharp_law(run_here):
    output = run_here(ROOT / "examples" / "own_activity.py")
    exact, law = (float(re.search(rf"{name} (\S+?),?\s", output + " ").group(1)) for name in ("error", "law"))
    assert exact == pytest.approx(law, rel=0.02)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["own_stream.py", "own_transport.py"])
def test_the_examples_own_stream_and_transport_find_the_mean_level(tmp_path, name):
    """Harmonic steps leave an error of about 0.01."""
    assert "asked: w = [2.]" in python(str(ROOT / "examples" / name), cwd=tmp_path)


@pytest.mark.parametrize(("page", "name"), [("experiments", "live"), ("live", "rehearsal")])
def test_a_page_shows_a_file_for_a_live_run_to_the_letter(page, name):
    (shown,) = blocks(f"docs/howto/{page}.md", "toml")
    assert (ROOT / "examples" / f"{name}.toml").read_text().endswith(f"\n\n{shown}")


def test_the_example_file_is_a_valid_experiment():
    from siag.experiments.config import build

    tables = tomllib.loads((ROOT / "examples" / "nonuniform.toml").read_text())
    assert build(tables).options["iterations"] == 20_000


def test_the_table_of_kinds_names_every_kind_and_every_option():
    page = text("docs/howto/experiments.md")
    for kinds in KINDS.values():
        for kind in kinds:
            assert f"`{kind}`" in page
    for option in RUN:
        assert f"`{option}`" in page


def headings(path):
    """As links name them."""
    found = re.findall(r"^#+ (.*)$", path.read_text(), flags=re.M)
    return [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found]


@pytest.mark.parametrize("name", PAGES)
def test_every_file_and_heading_a_document_points_to_exists(name):
    here = ROOT / name
    for target, heading in re.findall(r"\]\((?!http)([^)#]*)(?:#([^)]+))?\)", here.read_text()):
        there = here.parent / target if target else here
        assert there.exists() or there.parent.name == "made", target  # what `make docs` makes
        assert not heading or heading in headings(there), heading


def test_a_link_of_the_site_that_leads_nowhere_is_found(tmp_path):
    faults = runpy.run_path(str(ROOT / "docs" / "links.py"))["faults"]
    (tmp_path / "there.html").write_text('<h1 id="a">A</h1>')
    good = '<a href="there.html#a"></a><a href="https://example.org/"></a><a href="#b" id="b"></a>'
    (tmp_path / "here.html").write_text(good)
    assert faults(tmp_path) == []
    (tmp_path / "here.html").write_text(f'{good}<a href="there.html#c"></a><img src="gone.png"><a href="ftp:x"></a>')
    assert [fault.split()[1] for fault in faults(tmp_path)] == ["there.html#c", "gone.png", "ftp:x"]


@pytest.mark.parametrize("name", PAGES)
def test_lines_of_documents_have_at_most_120_characters(name):
    lines = (ROOT / name).read_text().splitlines()
    assert [number for number, line in enumerate(lines, 1) if len(line) > 120] == []


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "docs/explanation/design.md", "docs/tutorials/own_method.md"])
def test_every_source_file_a_document_names_exists(name):
    """As a path from src/siag, from one of its folders, or from the root; a bare name of a file may be anywhere."""
    known = {str(path.relative_to(ROOT)) for path in (*ROOT.glob("src/**/*"), *ROOT.glob("[a-z]*/**/*"))}
    for named in re.findall(r"`([\w/.]+(?:\.py|/))`", (ROOT / name).read_text()):
        assert any(f"/{path}".endswith(f"/{named.rstrip('/')}") for path in known), named


LIBRARIES = ("siag.adapters", "siag.experiments.claims", "siag.live", "siag.checks")  # not imported, or need others


@pytest.mark.parametrize("name", [name for name in PAGES if name != "CHANGELOG.md"])
def test_names_of_the_package_that_a_page_shows_exist(name):
    for dotted in re.findall(r"`(siag\.[a-z]\w*(?:\.\w+)*)[`(]", text(name)):
        if not dotted.startswith(LIBRARIES):
            thing = siag
            for part in dotted.split(".")[1:]:
                thing = getattr(thing, part)


def test_the_change_log_names_the_commands():
    log = text("CHANGELOG.md")
    for command in ("siag reproduce", "siag run", "siag theory"):
        assert command in log


def test_the_slips_of_the_paper_are_the_same_in_the_docs_and_on_the_page():
    from siag.report.slips import SLIPS

    page = " ".join(text("docs/explanation/theory.md").split())  # the docs break their lines, the report does not
    for number, slip in enumerate(SLIPS, 1):
        assert f"{number}. {slip}" in page


@pytest.mark.thorough
def test_the_shops_of_the_readme_count_the_same_however_often_they_report(tmp_path):
    def slopes(line):
        return [float(x) for x in re.search(r"\[(.*?)\]", line).group(1).split()]

    siag_line, sgd_line = python(str(ROOT / "examples" / "shops.py"), cwd=tmp_path).splitlines()
    shown = text("README.md").split("$ python examples/shops.py\n")[1].splitlines()
    # The standard error of a slope is 0.01, so fewer than one run in 10⁴ is rounded to something else.
    assert re.sub(r"\d+ reports", "… reports", siag_line) == shown[0]
    # SGD's are the mean by how often each reports; a busy machine slows the shop with the short pauses.
    assert slopes(sgd_line) == pytest.approx(slopes(shown[1]), abs=0.25)


@pytest.mark.parametrize("name", [name for name in PAGES if blocks(name, "sh")])
def test_every_command_and_option_a_page_shows_exists(name):
    from siag.cli import siag as group

    goals = set(re.findall(r"^([\w-]+):", text("Makefile"), flags=re.M))
    for shown in "".join(blocks(name, "sh")).replace("\\\n", "").splitlines():
        line = re.sub(r"^(\$ |cd \S+ && )", "", shown)
        first, *rest = line.split()
        if first == "siag":
            chosen = group.commands[rest[0]]
            known = {option for each in chosen.get_params(click.Context(chosen)) for option in each.opts}
            assert set(re.findall(r"(--[\w-]+)", line)) <= known, line
        elif first == "make":
            assert rest[0] in goals, line
        elif first == "python":
            assert (ROOT / rest[0]).exists(), line
        else:
            assert first in ("pip", "python3", ".", "ray", "export", "helm", "kubectl", "git", "docker"), line
