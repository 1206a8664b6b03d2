"""`siag train` on files with a loss by its name: a model without a line of Python."""

import json
from pathlib import Path

import numpy as np
import pytest

import siag
from siag.losses import Logistic, Softmax
from terminals import Desk, Shell

INSTANT = "--runtime instant:Instant"
NORTH, SOUTH = "--stream north.csv", "--stream south.csv"
TRAIN = "train --stream north.csv --stream south.csv --label late --eta 0.2 --json"


@pytest.fixture
def shell(tmp_path, monkeypatch, capsys):
    """In a folder with two files: late where wind − 2 rain + noise > 0.5, the columns in unequal order."""
    rng = np.random.default_rng(5)
    for name, rows, order in (("north", 400, (0, 1, 2)), ("south", 300, (2, 1, 0))):
        X = rng.standard_normal((rows, 2))
        late = X @ [1.0, -2.0] + 0.3 * rng.standard_normal(rows) > 0.5
        table = np.column_stack([X, late])[:, order].tolist()
        lines = [[("wind", "rain", "late")[k] for k in order], *table]
        text = "\n".join(",".join(map(str, line)) for line in lines)
        (tmp_path / f"{name}.csv").write_text(text)
    with Desk(tmp_path) as desk:
        yield Shell(desk, monkeypatch, capsys)


def accuracy(w):
    """On points without noise."""
    X = np.random.default_rng(6).standard_normal((1000, 2))
    return float((Logistic().predict(w, X) == (X @ [1.0, -2.0] > 0.5)).mean())


@pytest.mark.thorough
def test_a_model_is_trained_from_files_by_the_command_of_the_docs(shell):
    text = (Path(__file__).parent.parent / "docs" / "howto" / "live.md").read_text().replace("\\\n", "")
    (words,) = (line for line in text.splitlines() if line.startswith("siag train --loss"))
    trained = shell.desk.siag(*words.replace('"', "").split()[1:], "--json")
    assert trained.end() == 0, trained.err
    result = trained.documents()[-1]
    assert result["problem"] == "Logistic(ridge=0.01, intercept=True) on streams"
    assert result["ended"] == "all data were read 10 times"
    assert result["error"][0] == pytest.approx(np.log(2))
    assert result["error"][-1] < 0.35
    assert accuracy(np.load("out/w.npy")) > 0.9


def test_without_an_end_every_row_of_every_file_is_used_ten_times(shell):
    ended = shell(f"{TRAIN} --loss logistic {INSTANT}")
    assert (ended.status, ended.err, ended.result["ending"]) == (0, [], "epochs")
    assert 8000 < ended.result["t"][-1] < 8100  # they take turns, until the one with 400 rows begins pass 11
    assert accuracy(np.array(ended.result["w"])) > 0.9


def test_nothing_but_data_and_a_loss_need_be_given(shell):
    files = "--stream north.csv --stream south.csv --label late"
    ended = shell(f"train --loss logistic {files} --json --epochs 3 {INSTANT}")
    assert (ended.status, ended.err, ended.result["ending"]) == (0, [], "epochs")
    assert ended.result["method"].startswith("Automatic(")
    assert 2400 < ended.result["t"][-1] < 2500
    assert accuracy(np.array(ended.result["w"])) > 0.9
    keys = 'streams = ["north.csv", "south.csv"]\nlabel = "late"\nloss = "Logistic"\nuntil = { epochs = 3 }\n'
    Path("run.toml").write_text(keys)
    assert shell(f"train run.toml --json {INSTANT}").result["w"] == ended.result["w"]
    assert [worker["name"] for worker in ended.result["by_worker"]] == ["north", "south"]


def test_workers_are_named_after_their_files_if_these_differ_and_nobody_has_named_them(shell):
    Path("more").mkdir()
    Path("more/north.csv").write_text(Path("north.csv").read_text())

    def names(words):
        ended = shell(f"train {words} --label late --loss logistic --json --iterations 9 {INSTANT}")
        return [worker["name"] for worker in ended.result["by_worker"]]

    assert names(f"{NORTH} --stream more/north.csv") == ["0", "1"]
    assert names(f"{NORTH} {SOUTH} --name a --name b") == ["a", "b"]


def test_it_is_the_run_of_python(shell):
    ended = shell(f"{TRAIN} --loss Logistic(ridge=0.1) --runtime simulated --iterations 300")
    loss, files = Logistic(ridge=0.1), siag.streams.labelled(["north.csv", "south.csv"], "late")
    streams = [siag.streams.Repeated(file) for file in files]
    step = siag.steps.Constant(0.2)
    run = siag.train(loss, streams, np.zeros(3), step=step, until=300, runtime=siag.Simulated())
    assert ended.result["w"] == run.w[0].tolist()


def test_files_count_for_their_weights_in_the_loss_that_is_shown_too(shell):
    def lost(words):
        found = shell(f"{TRAIN} --loss squared --iterations 5 {INSTANT} {words}").result
        return found["error"][-1], np.array(found["w"])

    for words, parts in (("--weights south=3,north=1", [0.25, 0.75]), ("--weights 1,0", [1.0, 0.0]), ("", [0.5, 0.5])):
        shown, w = lost(words)
        rows = [[*file] for file in siag.streams.labelled(["north.csv", "south.csv"], "late")]
        each = [np.mean([siag.losses.Squared().value(w, row) for row in file]) for file in rows]
        assert shown == pytest.approx(np.dot(parts, each))
    assert shell.mistake(f"{TRAIN} --loss squared --iterations 5 --weights south=3,nord=1").endswith("mean north?")


@pytest.mark.parametrize("loss", ['loss = "Logistic(ridge=0.1)"', '[loss]\nkind = "logistic"\nridge = 0.1'])
def test_a_file_says_the_same_and_looks_for_the_data_beside_it(shell, loss):
    typed = shell(f"{TRAIN} --loss Logistic(ridge=0.1) --iterations 300 {INSTANT}")
    (shell.folder / "runs").mkdir()
    for name in ("north.csv", "south.csv"):
        (shell.folder / name).rename(shell.folder / "runs" / name)
    keys = 'streams = ["north.csv", "south.csv"]\nlabel = "late"\nuntil = 300\nstep = "Constant(0.2)"\n'
    Path("runs/run.toml").write_text(keys + loss)
    read = shell(f"train runs/run.toml --json {INSTANT}")
    assert (read.err, read.result["w"]) == ([], typed.result["w"])
    other = shell(f"train runs/run.toml --loss squared --label wind --json {INSTANT}")
    assert other.result["problem"] == "Squared(ridge=0.0, intercept=True) on streams"


def test_classes_are_found_in_the_files(shell):
    rows = [{"size": float(k), "kind": kind} for k in range(50) for kind in ("cat", "dog")]
    Path("a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("b.jsonl").write_text('{"size": 1, "kind": "owl"}\n')
    words = f"train --stream a.jsonl --stream b.jsonl --eta 0.001 --json {INSTANT} --loss"
    found = shell(f"{words} softmax(ridge=0.5)")
    assert found.result["problem"] == f"{Softmax(['cat', 'dog', 'owl'], ridge=0.5)} on streams"
    assert len(found.result["w"]) == 6
    given = shell(f"{words} Softmax(classes=['owl','dog','cat','ape'])")
    assert len(given.result["w"]) == 8


def test_a_gradient_of_ones_own_takes_the_rows_of_files_too(shell):
    with open("job.py", "a") as file:
        file.write("\n\ndef fit(w, sample):\n    x, y = sample\n    return (x @ w - y) * x\n")
    assert shell(f"{TRAIN} --gradient job:fit --dimension 2 --reports 20 {INSTANT}").status == 0


def test_files_that_grow_are_followed(shell):
    ended = shell(f"{TRAIN} --loss logistic --follow --reports 100 {INSTANT}")
    assert (ended.status, ended.result["samples"][-1]) == (0, 100)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("--loss logistc", "loss = 'logistc': must be one of Squared, Huber, Logistic, Softmax, Poisson, or yours as"),
        ("--loss logistic(rige=1)", "loss.rige = 1: must be one of ridge, intercept; did you mean ridge?"),
        ("--loss logistic(ridge=-1)", "loss.ridge = -1: must be a finite number at least 0"),
        (
            "--loss logistic(",
            "loss = 'Logistic(': must be one of Squared, Huber, Logistic, Softmax, Poisson, with a",
        ),
        ("--loss logistic --label lat", "label = 'lat': must be one of the columns wind, rain, late, by name or as"),
        ("--loss logistic --label wind", "north.csv: y = "),
        ("--loss poisson --label wind", "north.csv: y = -"),
        ("--loss softmax(classes=[0,2])", "north.csv: y = 1.0: must be one of the classes 0, 2; name all"),
        ("--loss logistic --dimension 4", "dimension = 4: must be 3 numbers for 2 features; or leave it out"),
        ("--loss logistic --gradient job:gradient", "gradient = "),
        ("--loss logistic --stream nort.csv", "streams[2] = 'nort.csv': must be a file that exists, or of the form"),
        ("--gradient job:gradient", "dimension is missing; give --dimension D, or --w0 FILE.npy"),
    ],
)
def test_mistakes_get_one_line(shell, words, line):
    assert shell.mistake(f"{TRAIN} {INSTANT} {words}").startswith(line)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x,city,late\n1,2,0\n1,,1\n", "line 3: '' in column city is not a finite number; mend it, or take the line"),
        (
            "x,city,late\n1,paris,0\n",
            "line 2: 'paris' in column city is not a finite number; mend it, or take the line out; if",
        ),
        ("late,x,z\nno,1,2\n", "line 2: 'no' in column late is not a finite number; mend it, or take the line out; if"),
    ],
)
def test_a_bad_row_is_met_with_what_can_be_done_in_a_shell(shell, text, words):
    Path("rows.csv").write_text(text)
    line = shell.mistake(f"train --loss logistic --stream rows.csv {INSTANT}").removeprefix("./")
    assert line.startswith(f"rows.csv, {words}")
    assert "bad=" not in line
    assert ("(--label late)" in line) == text.startswith("late")


def test_files_that_grow_never_end_by_epochs(shell):
    words = f"{TRAIN} --loss logistic --follow --epochs 2 {INSTANT}"
    assert shell.mistake(words).startswith("streams[0] = Follow(")
    assert shell(f"{words} --reports 20").status == 0


def test_what_is_said_of_files_is_refused_where_there_are_none(shell):
    words = f"train --gradient job:gradient --stream job:ones --dimension 3 --eta 1 {INSTANT}"
    assert shell.mistake(f"{words} --label y") == "label = 'y': must be given with files as streams"
    assert shell.mistake(f"{words} --follow") == "follow = True: must be given with files as streams"


def test_a_loss_is_guessed_from_a_name_that_is_near(shell):
    assert shell.mistake(f"{TRAIN} {INSTANT} --loss Logstic").endswith("; did you mean Logistic?")
    assert shell.mistake(f"{TRAIN} {INSTANT} --loss logstic(ridge=1)").endswith("; did you mean Logistic?")
    assert shell.mistake(f"{TRAIN} {INSTANT} --loss hinge").endswith('or yours as "module:attribute"')


def test_a_server_has_no_data_to_fit_a_loss_to(shell):
    remedy = "a loss by its name is for siag train, which has the data"
    line = f"loss = 'logistic': must be of the form \"module:attribute\"; {remedy}"
    assert shell.mistake("serve --loss logistic --dimension 3 --workers 2 --eta 1") == line


def test_a_loss_by_its_name_is_a_gradient_on_streams_of_ones_own(shell):
    with open("job.py", "a") as file:
        file.write("\n\npairs = [([1.0, 2.0], 1), ([2.0, 1.0], 0)] * 20\n")
    words = f"train --stream job:pairs --eta 0.1 --json {INSTANT} --loss"
    assert (
        shell(f"{words} logistic --dimension 3 --epochs 2").result["t"][-1] >= 81
    )  # the first of the third pass tells
    assert shell.mistake(f"{words} logistic").startswith("dimension is missing")
    assert shell.mistake(f"{words} softmax") == "loss.classes is missing; write Softmax(classes=…)"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (f"{NORTH} {SOUTH} --label wind", "label is 'late' there and 'wind' here; run what was saved in this folder"),
        (
            f"{SOUTH} {NORTH} --label late",
            "files is ['north.csv', 'south.csv'] there and ['south.csv', 'north.csv'] he",
        ),
        (
            f"{NORTH} {NORTH} --label late",
            "files is ['north.csv', 'south.csv'] there and ['north.csv', 'north.csv'] he",
        ),
    ],
)
def test_a_folder_goes_on_with_the_same_samples_only(shell, words, line):
    begun = f"train {NORTH} {SOUTH} --label late --loss squared --reports 50 --json {INSTANT} --folder"
    assert shell(f"{begun} s").status == 0
    other = shell.mistake(f"train {words} --loss squared --reports 50 --json {INSTANT} --folder s")
    assert other.partition(": ")[2].startswith(line)
    assert shell(f"{begun} s").result["ended"] == "it had been reached before"


def test_a_folder_goes_on_with_the_same_columns_only_also_from_a_file(shell):
    keys = 'streams = ["north.csv"]\nloss = "Squared"\nlabel = "late"\nuntil = 50\nfolder = "s"\n'
    Path("run.toml").write_text(keys)
    assert shell(f"train run.toml --json {INSTANT}").status == 0
    Path("data").mkdir()
    Path("data/north.csv").write_text(Path("north.csv").read_text())
    Path("run.toml").write_text(keys.replace("north", "data/north"))
    assert shell(f"train run.toml --json {INSTANT}").result["ended"] == "it had been reached before"
    Path("data/north.csv").write_text(Path("north.csv").read_text().replace("rain", "snow"))
    line = shell.mistake(f"train run.toml --json {INSTANT}").partition(": ")[2]
    assert line.startswith("row of features is ['wind', 'rain'] there and ['wind', 'snow'] here; run what was saved")
    Path("run.toml").write_text(keys.replace("late", "wind"))
    assert ": label is 'late' there and 'wind' here; " in shell.mistake(f"train run.toml --json {INSTANT}")


@pytest.mark.filterwarnings("always::siag.TrainingWarning")
def test_files_with_labels_of_one_class_alone_are_warned_of(shell):
    for name in ("a", "b"):
        Path(f"{name}.csv").write_text("x,y\n1,1\n2,1\n3,1\n")
    Path("c.csv").write_text("x,y\n1,0\n")
    words = f"train --loss logistic --json --reports 20 {INSTANT} --stream a.csv"
    warned = shell(f"{words} --stream b.csv")
    doubt = (
        "all labels in the first 1,000 rows of each file are of one class, 1.0: the model can learn nothing but that"
    )
    assert (warned.status, len(warned.err), warned.err[0].startswith(f"siag: {doubt}; ")) == (0, 1, True)
    assert warned.events[0].startswith(f"warning: {doubt}; ")
    for other in ("--stream c.csv", "--stream b.csv --follow --reports 5"):
        assert shell(f"{words} {other}").err == []


def test_a_label_far_from_all_others_is_doubtful_in_files_too(shell, tmp_path):
    y = np.append(np.random.default_rng(1).standard_normal(59), 1e9)
    np.savetxt(tmp_path / "a.csv", np.column_stack([y**2, y]), delimiter=",")
    outcome = shell(f"train --loss squared --json --reports 20 {INSTANT} --stream a.csv")
    assert outcome.events[0].startswith("warning: the label 1e+09 is ")


def test_what_a_shell_makes_of_a_pattern_is_met_with_what_to_type(shell):
    words = "train --loss logistic --stream north.csv south.csv"
    assert shell.mistake(f"{words} c.csv d.csv").endswith("(c.csv d.csv); repeat --stream before each file")
    assert shell.mistake(f"{words} c.csv".replace("m n", "m=n")).endswith(" (c.csv); repeat --stream before each file")
    line = shell.mistake(words)
    assert line.startswith("south.csv: not TOML: ")
    assert line.endswith("; repeat --stream before each file")
    assert "--stream" not in shell.mistake("train south.csv")
    assert "--stream" not in shell.mistake("train run.toml c.csv")


def test_columns_of_any_mean_are_trained_as_if_standardised_and_many_of_them_told_in_short(shell, tmp_path):
    rng = np.random.default_rng(1)
    for name in ("a", "b"):
        X = rng.standard_normal((60, 30)) + 8.0
        np.savetxt(tmp_path / f"{name}.csv", np.column_stack([X, X[:, 0]]), delimiter=",", fmt="%.6f")
    words = f"train --loss squared {INSTANT} --stream a.csv --stream b.csv --reports 20"
    (line,) = (line for line in shell(words).out if line.startswith("method"))
    assert line.startswith("method      Standardised(method=Automatic(")
    assert line.endswith("…")
    assert len(line) < 330
