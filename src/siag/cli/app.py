"""The command line, and its commands that simulate: `siag reproduce`, `siag run`, `siag theory`."""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from siag.cli.early import INTERRUPTED, NOT_BEGUN, NotBegun, Terminated
from siag.cli.files import SWEEP_FILES, deliver, deliver_sweep, folder_for
from siag.cli.printing import bar, print_json, stop, tell, tell_chapter
from siag.foundations.errors import DivergenceWarning, SiagError
from siag.foundations.version import __version__

if TYPE_CHECKING:
    from siag.experiments.config import Experiment
    from siag.simulation import Sweep

FAILED, WRONG, TERMINATED = 1, 2, 143
NOTHING_HALF = "no half-written file was left behind"
FILE = click.Path(path_type=Path)

EXAMPLES = """\b
Examples:
  siag reproduce                      the paper's figures and claims, as one report
  siag demo                           eight unequal workers on this machine, for 15 s
  siag run experiment.toml --out out  one experiment from a file
  siag compare                        methods on the paper's problem, on one footing
  siag theory --n 20 --T 15           Theorem 1's constants, and the steps to use
  siag train --gradient job:gradient --stream job:a --stream job:b --dimension 3
  siag serve --workers 2 --dimension 3
  siag work HOST:7460 --gradient job:gradient --stream job:stream
  siag export state w.npy             the model of a live run, from its --folder

\b
Exit status:
  0    done; also siag serve and siag train after Ctrl-C or SIGTERM, which end them in order
  1    a run diverged or failed, a claim does not hold, a worker's own code failed, a live run ended
       because no worker was there and one had failed, or one failed before any report, there was
       no server (siag work --give-up), a file could not be written, or the machine refused
  2    a mistake in what was given, one line says which; for siag work also: the server refused
  130  interrupted with Ctrl-C; siag serve and siag train: before they began, or a second time
  143  siag work ended by SIGTERM, having told the server; siag serve and siag train: by a second one
"""

SYNONYMS = {  # what other programs call an option, where a guess by its letters would mislead
    **dict.fromkeys(("lr", "learning-rate", "stepsize", "step-size", "alpha"), "--eta"),
    **dict.fromkeys(("n", "clients", "nodes"), "--workers"),
    **dict.fromkeys(("epochs", "steps", "max-iter"), "--iterations"),
    **dict.fromkeys(("checkpoint", "checkpoints", "state"), "--folder"),
    **dict.fromkeys(("d", "dim", "features"), "--dimension"),
}
OF_A_LOSS = {  # what is a parameter of a loss, and no option
    "ridge": "Logistic(ridge=0.1)",
    "intercept": "Logistic(intercept=False)",
    "delta": "Huber(delta=1.0)",
    "classes": "Softmax(classes=['a', 'b'])",
}
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")


def main() -> None:
    """Run the command line; a mistake of the user's becomes one line and exit status 2."""
    said: dict[str, str] = {}
    try:
        with siag.make_context("siag", sys.argv[1:] or ["--help"], obj=said) as context:
            sys.exit(siag.invoke(context))
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except click.NoSuchOption as error:
        stop(_no_such_option(error), WRONG)
    except click.ClickException as error:
        stop(error.format_message(), WRONG)
    except SiagError as error:
        stop(str(error), FAILED if type(error) is SiagError else WRONG)  # those that are mistakes have a type
    except NotBegun:
        stop(NOT_BEGUN, 0)
    except Terminated:
        stop("; ".join(["ended by SIGTERM", *said.values()]), TERMINATED)
    except KeyboardInterrupt:
        stop("; ".join(["interrupted", *said.values()]), INTERRUPTED)
    except MemoryError as error:
        reason = str(error) or "the job is too large"
        stop(f"not enough memory: {reason}; use fewer workers, dimensions or points", FAILED)
    except OSError as error:
        stop(f"{error.filename or 'output'}: {error.strerror or error}", FAILED)


def _no_such_option(error: click.NoSuchOption) -> str:
    """What may have been meant."""
    name = error.option_name.lstrip("-").replace("_", "-")
    if name in SYNONYMS:
        return f"No such option '{error.option_name}'. Did you mean {SYNONYMS[name]}?"
    if name in OF_A_LOSS and error.ctx is not None and error.ctx.info_name == "train":
        return f"No such option '{error.option_name}'. A loss takes its parameters as --loss \"{OF_A_LOSS[name]}\"."
    return error.format_message()


def on_interrupt(words: str) -> None:
    """Say what Ctrl-C means from now on for the command that is running; the last words given are printed."""
    said = click.get_current_context().find_object(dict)
    if said is not None:
        said["interrupted"] = words


@click.group(epilog=EXAMPLES, context_settings={"max_content_width": 100, "help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="siag %(version)s")
def siag() -> None:
    """Train one model from many data streams on unequal, unreliable workers."""


@siag.command(epilog="Example: siag reproduce --out report")
@click.option("--out", type=FILE, default="out", show_default=True, help="Folder for the report.")
@click.option("--quick", is_flag=True, help="A smaller report in seconds; it says what it leaves out.")
@AS_JSON
def reproduce(out: Path, quick: bool, as_json: bool) -> int:
    """Reproduce the paper: all figures, a table of claims, and a page to read.

    A line on standard error says what each chapter has found as soon as it is there.

    Exit status 1 if a claim does not hold; standard error says which, and what was measured.
    """
    from siag.experiments import PAPER, QUICK, left_out
    from siag.experiments import reproduce as make

    on_interrupt(NOTHING_HALF)
    began = time.perf_counter()
    with bar(not as_json and sys.stderr.isatty()) as show:
        page, claims = make(out, QUICK if quick else PAPER, progress=show, found=None if as_json else tell_chapter)
    held = [claim for claim in claims if claim.holds]
    if as_json:
        holds = len(held) == len(claims)
        print_json({"report": str(page), "holds": holds, "claims": [vars(claim) for claim in claims]})
    else:
        _print_claims(claims)
        print(f"{len(held)} of {len(claims)} claims hold.")
        if quick:
            print(f"Left out: {left_out(QUICK)}.")
        print(f"Report: {page}  ({time.perf_counter() - began:.0f} s)")
    for claim in claims:
        if not claim.holds:
            tell(
                f"claim fails: {claim.statement} ({claim.source}); predicted: {claim.prediction}; "
                f"measured: {claim.measured}"
            )
    return 0 if len(held) == len(claims) else FAILED


@siag.command(epilog="Example: siag run examples/nonuniform.toml --out out")
@click.argument("file", type=FILE)
@click.option("--out", type=FILE, help="Folder for run.npz, run.csv, run.png and run.svg; of a sweep sweep.csv, ….")
@AS_JSON
def run(file: Path, out: Path | None, as_json: bool) -> int:
    """Run the experiment that the TOML file FILE describes (see docs/howto/experiments.md).

    Lists in the file make it a sweep: every combination is run, and one that was interrupted goes on where it stopped.
    Exit status 1 if a run diverges; what was recorded until then is kept. Also if a file cannot be written in the end.
    """
    from siag.experiments.config import read

    on_interrupt(NOTHING_HALF)
    experiment = read(file)
    if not experiment.single:
        return _sweep(experiment, out, as_json)
    folder = folder_for(out)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DivergenceWarning)
        result = experiment.run(progress=not as_json and sys.stderr.isatty())
    lost = deliver(result, folder, as_json)
    diverged = [str(warning.message) for warning in caught if issubclass(warning.category, DivergenceWarning)]
    tell(*(f"{message}; what was recorded until then is kept" for message in diverged), *lost)
    return FAILED if diverged or lost else 0


def _sweep(experiment: Experiment, out: Path | None, as_json: bool) -> int:
    """Run a grid; print, and with a folder keep, one tidy table."""
    from siag.foundations.files import writable_folder
    from siag.simulation import Incomplete

    folder = None if out is None else writable_folder("out", out, SWEEP_FILES)
    kept = None if folder is None else folder / "runs"
    if kept is not None:
        on_interrupt(f"what was finished is in {kept}; the same command goes on from there")
    failed: list[str] = []
    try:
        result = experiment.sweep(kept, progress=not as_json and sys.stderr.isatty())
    except Incomplete as error:
        result, failed = error.sweep, str(error).splitlines()
    written, lost = ([], []) if folder is None else deliver_sweep(result, folder)
    if as_json:
        print_json({name: values.tolist() for name, values in result.table().items()})
    else:
        _print_sweep(result)
        if folder is not None and written:
            print(f"Written: {', '.join([str(folder / written[0]), *written[1:]])}; every run is in {kept}")
    diverged = sum(bool((run.diverged >= 0).any()) for run in result.runs)
    if diverged:
        tell(f"{diverged} of {len(result.runs)} combinations diverged; see the column diverged")
    tell(*failed, *lost)
    return FAILED if diverged or failed or lost else 0


def _print_sweep(result: Sweep) -> None:
    """What all combinations have in common, then a row for each with what differs."""
    import rich
    from rich.table import Column, Table

    from siag.simulation.metrics import WORDS
    from siag.simulation.swept import ROLES

    differ = [role for role in ROLES if role in result.varying or (role == "step" and len(set(result.steps)) > 1)]
    for role in ROLES:
        if role not in differ and result.runs:
            print(f"{role:<9} {result.steps[0] if role == 'step' else result.runs[0].about[role]}")
    measured = list(result.runs[0].beside_error if result.runs else ())
    places = [Column(role, overflow="fold") for role in differ]
    grid = Table(*places, "error at the end", "± standard error", *(WORDS.get(name, name) for name in measured))
    for run, step, label in zip(result.runs, result.steps, result.labels, strict=True):
        spread, table = f"{run.standard_error[-1]:.1e}" if run.repeats > 1 else "–", run.table()
        own = [f"{table[name][-1]:.4g}" if name in table else "–" for name in measured]
        grid.add_row(*(step if role == "step" else label[role] for role in differ), f"{run.mean[-1]:.4e}", spread, *own)
    rich.print(grid)


@siag.command(epilog="Example: siag theory --n 20 --T 15 --beta 0.5")
@click.option("--n", type=int, default=20, show_default=True, help="Workers n.")
@click.option("--T", "T", type=int, default=15, show_default=True, help="Bound on the age of a gradient.")
@click.option("--mu", type=float, default=10.0, show_default=True, help="Strong convexity μ.")
@click.option("--L", "L", type=float, default=10.0, show_default=True, help="Smoothness L.")
@click.option("--sigma2", type=float, default=825.0, show_default=True, help="σ² of Assumption 2.")
@click.option("--beta", type=float, help="β of Theorem 1's step β/(t+γ).  [default: 5/μ]")
@click.option("--error0", type=float, default=5.0, show_default=True, help="E₀ = ‖w⁰ − w*‖².")
@AS_JSON
def theory(mu: float, beta: float | None, error0: float, as_json: bool, **given: Any) -> None:
    """Theorem 1's constants and bound, and the step sizes to use.

    The defaults are about those of the paper's least-squares problem.
    """
    from siag.theory import Theorem1, describe

    chosen = beta if beta is not None else 5.0 / mu if mu > 0 else 1.0
    facts = describe(Theorem1(mu=mu, beta=chosen, **given), error0)
    if as_json:
        print_json(facts)
        return
    for title, rows in facts.items():
        print(title)
        for name, value in rows.items():
            print(f"  {name:<32} {value:.6g}")


def _print_claims(claims: list[Any]) -> None:
    import rich
    from rich.table import Table

    grid = Table("", "claim", "measured", show_lines=True)
    for claim in claims:
        mark = "[green]holds[/]" if claim.holds else "[bold red]FAILS[/]"
        grid.add_row(mark, f"{claim.statement} [dim]({claim.source})[/]", claim.measured)
    rich.print(grid)
