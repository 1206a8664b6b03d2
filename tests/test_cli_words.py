"""What the shell answers to words that are nearly right: the word that was meant."""

import pytest

from terminals import Desk, Shell

DATA = "train --gradient job:gradient --stream job:ones --dimension 3 --iterations 5"


@pytest.fixture
def shell(tmp_path, monkeypatch, capsys):
    with Desk(tmp_path, "") as desk:
        yield Shell(desk, monkeypatch, capsys)


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (f"{DATA} --lr 0.1", "No such option '--lr'. Did you mean --eta?"),
        (f"{DATA} --learning-rate 0.1", "No such option '--learning-rate'. Did you mean --eta?"),
        (
            "train --loss logistic --ridge 0.1",
            "No such option '--ridge'. A loss takes its parameters as --loss \"Logistic(ridge=0.1)\".",
        ),
        (f"{DATA} --eta 0.1 --method siag", "; did you mean SIAG?"),
        (f"{DATA} --eta 0.1 --method scafold(steps=2)", "; did you mean SCAFFOLD?"),
        ("train --gradient ./job.py:gradient", 'the name of a module, not of its file; write "job:gradient"'),
        ("train --gradient jobs/job.py:gradient", 'write "job:gradient" in the folder jobs'),
    ],
)
def test_a_word_that_is_nearly_right_is_answered_with_the_right_one(shell, words, answer):
    assert shell.mistake(words).endswith(answer)


@pytest.mark.parametrize("command", ["train", "serve --workers 1 --dimension 3"])
def test_messages_of_another_kind_are_refused_alike_in_the_shell_and_in_a_file(shell, tmp_path, command):
    tmp_path.joinpath("run.toml").write_text('messages = "float16"\n[step]\nkind = "Constant"\neta = 0.1\n')
    words = f"{DATA} --eta 0.1" if command == "train" else f"{command} --eta 0.1"
    of_file = f"{DATA} run.toml" if command == "train" else f"{command} run.toml"
    line = "messages = 'float16': must be one of 'float64', 'float32', 'bfloat16', 'int8'"
    assert shell.mistake(f"{words} --messages float16").endswith(line)
    assert shell.mistake(of_file).endswith(line)
