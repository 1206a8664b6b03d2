"""Rows of a query as samples, on SQLite."""

import pickle
import sqlite3
from functools import partial
from itertools import islice

import numpy as np
import pytest

import siag
from siag.foundations.errors import BadFile, BadInput, SiagError
from siag.streams import SQL, Repeated

QUERY = "SELECT x, y FROM sales ORDER BY x"
LIMIT = " LIMIT -1 OFFSET {}"


@pytest.fixture
def connect(tmp_path):
    path = str(tmp_path / "shop.db")
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE sales (x REAL, y TEXT)")
        connection.executemany("INSERT INTO sales VALUES (?, ?)", [(float(k), "ab"[k % 2]) for k in range(10)])
    connection.close()
    return partial(sqlite3.connect, path)


def test_rows_are_named_tuples_in_the_order_of_the_query(connect):
    rows = list(SQL(connect, QUERY, size=3))
    assert [row.x for row in rows] == list(range(10))
    assert rows[1].y == "b"


def test_a_column_may_be_the_label(connect):
    x, y = list(SQL(connect, QUERY, label="y"))[3]
    assert (x.tolist(), y) == ([3.0], "b")


def test_parse_makes_a_sample_of_a_dict(connect):
    assert list(SQL(connect, QUERY, parse=lambda row: row["x"] + 1))[:2] == [1.0, 2.0]


def test_parameters_are_those_of_the_query(connect):
    assert [row.x for row in SQL(connect, "SELECT x FROM sales WHERE x > ?", (7,))] == [8.0, 9.0]


@pytest.mark.parametrize("offset", [None, LIMIT])
def test_it_is_read_again_and_goes_on_anywhere(connect, offset):
    stream = Repeated(SQL(connect, QUERY, offset=offset, parse=lambda row: row["x"]))
    every = list(islice(stream, 25))
    assert every == [k % 10 for k in range(25)]
    for after in (3, 10, 17):
        assert list(islice(stream.after(after), 5)) == every[after : after + 5]


def test_with_an_offset_the_rows_before_are_not_fetched(connect):
    asked = []

    class Noted(sqlite3.Connection):
        def cursor(self):
            cursor = super().cursor()
            return type("Cursor", (), {
                "execute": lambda _, query: (asked.append(query), cursor.execute(query)),
                "fetchmany": lambda _, size: cursor.fetchmany(size),
                "description": property(lambda _: cursor.description),
                "close": lambda _: cursor.close(),
            })()  # fmt: skip

    path = connect.args[0]
    stream = Repeated(SQL(lambda: sqlite3.connect(path, factory=Noted), QUERY, offset=LIMIT)).after(13)
    assert next(iter(stream)).x == 3
    assert asked == [f"SELECT COUNT(*) FROM ({QUERY}) AS counted", f"{QUERY} LIMIT -1 OFFSET 3"]


def test_it_can_be_sent_to_the_process_that_reads_it(connect):
    assert len(list(pickle.loads(pickle.dumps(SQL(connect, QUERY))))) == 10


def test_a_run_on_it_ends_by_epochs(connect):
    loss, until = siag.losses.Squared(), siag.Until(epochs=2)
    stream = SQL(connect, "SELECT x / 10 AS x, 2 * x AS y FROM sales", label="y")
    run = siag.train(loss, [stream], np.zeros(2), until=until, runtime=siag.Simulated(), progress=False)
    assert int(run.samples[0, -1]) in (20, 21)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT z FROM sales", r"^query 'SELECT z FROM sales': fails with OperationalError: no such column: z$"),
        ("CREATE TABLE other (x REAL)", "must be one that gives rows"),
    ],
)
def test_a_query_that_fails_is_one_line(connect, query, words):
    with pytest.raises(SiagError, match=words):
        list(SQL(connect, query))


def test_a_label_that_is_no_column_and_a_feature_that_is_no_number_are_one_line(connect):
    with pytest.raises(BadInput, match="label = 'z': must be one of the columns x, y"):
        list(SQL(connect, QUERY, label="z"))
    with pytest.raises(BadFile, match=r"^query '.*', row 1: 'a' in column y is not a finite number; mend it"):
        list(SQL(connect, QUERY, label="x"))


def test_a_query_without_rows_is_refused(connect):
    for offset in (None, LIMIT):
        with pytest.raises(BadInput, match="data with at least one sample"):
            next(iter(Repeated(SQL(connect, "SELECT x FROM sales WHERE x > 99", offset=offset))))


def test_how_to_connect_is_not_shown(connect):
    assert "shop.db" not in repr(SQL(connect, QUERY))


@pytest.mark.parametrize(
    "wrong", [{"connect": "shop.db"}, {"query": " "}, {"offset": "OFFSET 3"}, {"size": 0}, {"label": 3}, {"parse": 3}]
)
def test_what_it_cannot_be_is_refused(connect, wrong):
    with pytest.raises(BadInput, match=next(iter(wrong))):
        SQL(**{"connect": connect, "query": QUERY} | wrong)
