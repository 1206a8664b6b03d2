"""What the dashboard answers, to whom, and how it looks after itself; the page itself is tested in a browser."""

import asyncio
import base64
import hashlib
import io
import json
import math
import re
import socket
import sys
from concurrent.futures import Future

import httpx
import numpy as np
import pytest
from requests_to import asked, asking, scope_of
from snapshots import snapshot

import siag
from siag.foundations.errors import BadInput, Missing
from siag.live.certificates import make_certificates
from siag.live.monitor.dashboard import app as pages_module
from siag.live.monitor.dashboard import server as server_module
from siag.live.monitor.dashboard.app import BROWSERS, Pages, page
from siag.live.monitor.dashboard.board import Board
from siag.live.monitor.dashboard.guard import Guard
from siag.live.monitor.dashboard.history import MOST, SPAN
from siag.live.monitor.dashboard.place import Dashboard
from siag.live.monitor.dashboard.server import CONNECTIONS, Served
from siag.live.monitor.watching import watchers_of
from siag.live.security import client_context

TOKEN = "a-token-of-enough-letters"


def board_of(w=None):
    made = Board()
    made.show(snapshot())
    if w is not None:
        made.read_model = lambda: known(w)
    return made


def known(w):
    found = Future()
    found.set_result(w)
    return found


def app_of(board=None, token=None, dropped=None):
    pages = Pages(board or board_of(), (lambda scope: None) if dropped is None else dropped.append)
    return Guard(pages.app, "127.0.0.1", 7461, token, secure=True)


@pytest.fixture
def served():
    made = Served(Dashboard(port=0), board_of())
    yield made
    made.close()


# The page


def test_the_page_runs_nothing_but_its_own_script():
    status, headers, body = asked(app_of())
    text = body.decode()
    script = re.search(r"<script>(.*)</script>", text, re.S)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert status == 200
    assert f"script-src 'sha256-{digest}'" in headers["content-security-policy"]
    assert "default-src 'none'" in headers["content-security-policy"]
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", text)
    assert "STYLE */" not in text
    assert "SCRIPT */" not in text
    assert len(page()[0]) < 100_000


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "/../pyproject.toml", "/page.js", "/static/", "/%2e%2e/", "/stream/x", "/stream/", "//"]
)
def test_only_the_pages_own_paths_are_there(path):
    assert asked(app_of(), path)[0] == 404


# Who is let in


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:7461", "192.168.0.7:7461", "", "127.0.0.1.evil.example", "[", "a b"]
)
def test_a_forged_host_is_refused(host):
    assert asked(app_of(), "/stream", host=host)[0] == 421


@pytest.mark.parametrize("host", ["127.0.0.1:7461", "localhost:9999", "LOCALHOST", "[::1]:7461"])
def test_this_machine_is_let_in_by_its_names(host):
    assert asked(app_of(), host=host)[0] == 200


@pytest.mark.parametrize(
    "headers", [{"origin": "http://evil.example"}, {"origin": "null"}, {"sec_fetch_site": "cross-site"}]
)
def test_other_sites_requests_are_refused(headers):
    for path in ("/stream", "/model.npy", "/at?1"):
        assert asked(app_of(), path, **headers)[0] == 403


def test_a_link_to_the_page_may_be_followed():
    assert asked(app_of(), sec_fetch_site="cross-site", sec_fetch_mode="navigate")[0] == 200
    assert asked(app_of(), origin="http://127.0.0.1:7461", sec_fetch_site="same-origin")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_can_be_sent(method):
    assert asked(app_of(), method=method)[0] == 405


def test_a_token_becomes_a_cookie_that_scripts_and_other_sites_do_not_get():
    app = app_of(token=TOKEN)
    assert asked(app)[0] == asked(app, "/stream")[0] == asked(app, "/?token=wrong")[0] == 401
    assert asked(app, f"/stream?token={TOKEN}")[0] == 401
    status, headers, _ = asked(app, f"/?token={TOKEN}")
    cookie, *rest = headers["set-cookie"].split("; ")
    assert (status, headers["location"]) == (303, "/")
    assert {"HttpOnly", "SameSite=Strict", "Secure"} <= set(rest)
    assert asked(app, cookie=cookie)[0] == 200
    assert asked(app, cookie=f"{cookie}x")[0] == 401
    assert asked(app, authorization=f"Bearer {TOKEN}")[0] == 200
    assert asked(app, host="192.168.0.7:7461", cookie=cookie)[0] == 200


# The stream


def test_a_stream_ends_with_the_run():
    board = board_of()
    board.end()
    status, headers, body = asked(app_of(board), "/stream")
    *_, last = [json.loads(line[6:]) for line in body.decode().split("\n\n") if line.startswith("data: ")]
    assert status == 200
    assert headers["content-type"].startswith("text/event-stream")
    assert last["ended"] is True
    assert last["now"]["version"] == 1234


def test_there_are_only_so_many_browsers_and_one_that_goes_makes_room():
    app = app_of()

    async def crowd():
        gone = [asyncio.Event() for _ in range(BROWSERS)]
        watching = [asyncio.ensure_future(asking(app, "/stream", gone=each)) for each in gone]
        await asyncio.sleep(0)
        refused = await asking(app, "/stream")
        gone[0].set()
        await watching[0]
        later = asyncio.Event()
        late = asyncio.ensure_future(asking(app, "/stream", gone=later))
        await asyncio.sleep(0)
        for each in (*gone, later):
            each.set()
        return refused, await late, await asyncio.gather(*watching)

    refused, late, watched = asyncio.run(crowd())
    assert refused[0] == 503
    assert late[0] == 200
    assert {each[0] for each in watched} == {200}


def test_a_browser_that_takes_nothing_is_dropped(monkeypatch):
    monkeypatch.setattr(pages_module, "PATIENCE", 0.01)
    dropped = []

    async def stuck(message):
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    async def receive():
        await asyncio.Event().wait()

    scope = scope_of("/stream", "GET", {})
    asyncio.run(app_of(dropped=dropped)(scope, receive, stuck))
    assert dropped == [scope]


# The model


def test_the_model_is_sent_as_it_is():
    w = np.array([1.5, -2.0, np.pi])
    status, headers, body = asked(app_of(board_of(w)), "/model.npy")
    assert (status, headers["content-disposition"]) == (200, 'attachment; filename="w.npy"')
    assert (np.load(io.BytesIO(body)) == w).all()
    assert json.loads(asked(app_of(board_of(w)), "/model.json")[2])["w"] == w.tolist()


def test_a_model_that_is_not_there_is_told(monkeypatch):
    assert asked(app_of(), "/model.npy")[0] == 404
    monkeypatch.setattr(pages_module, "PATIENCE", 0.01)
    board = board_of()
    board.read_model = Future  # nobody copies it
    assert asked(app_of(board), "/model.npy")[0] == 503


@pytest.mark.thorough
def test_a_running_session_hands_its_model_out():
    copies = []

    class Asking(siag.runtimes.Quiet):
        def model(self, read):
            self.read = read

        def show(self, shown):
            if not copies:
                copies.append(self.read())

    problem = siag.problems.LeastSquares.random(n=2, d=3, p=2, noise=0.1)
    siag.train(problem=problem, until=50, progress=Asking(), runtime=siag.Simulated(seed=1))
    assert copies[0].result(0).shape == (3,)


# The server


def test_it_is_told_where_it_is_and_gives_its_port_back():
    told = []

    class Listening(siag.runtimes.Quiet):
        def event(self, text):
            told.append(text)

    watcher = watchers_of(Listening(), 0)
    address = told[0].removeprefix("dashboard at ")
    assert httpx.get(address).status_code == 200
    watcher.close()
    with pytest.raises(httpx.ConnectError):
        httpx.get(address)


def test_a_port_in_use_is_told_in_one_line_before_training_starts():
    problem = siag.problems.LeastSquares.random(n=2, d=3, p=2, noise=0.1)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(BadInput, match=rf"dashboard.*{port}.*in use.*choose another port") as caught:
            siag.train(problem=problem, until=10**9, dashboard=port, progress=False)
    assert "\n" not in str(caught.value)


def test_a_missing_library_is_told_with_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "starlette", None)
    with pytest.raises(Missing, match=r"pip install 'siag\[dashboard\]'"):
        Served(Dashboard(port=0))


def test_a_fault_of_the_page_is_told_once_and_costs_no_training(served, monkeypatch):
    monkeypatch.setattr(served.board, "show", lambda snapshot: 1 / 0)
    served.show(snapshot())
    served.show(snapshot())
    assert [text for *_, wrong, text in served.board.events if wrong] == [
        "problem: nothing new is shown from here on, since the page has a fault: ZeroDivisionError('division by zero')"
    ]
    assert not served.wants(1e9)


def test_five_hundred_connections_at_once_are_survived(served):
    connections = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(500)]
    closed = 0
    for each in connections[CONNECTIONS + 64 :]:
        each.settimeout(3)  # a connection that is only silent is closed later
        try:
            closed += each.recv(1) == b""
        except ConnectionResetError:
            closed += 1
    for each in connections:
        each.close()
    assert closed == 500 - CONNECTIONS - 64
    with httpx.Client(transport=httpx.HTTPTransport(retries=5)) as client:
        assert client.get(served.address).status_code == 200


def test_nonsense_is_answered_or_closed(served):
    for nonsense in (b"\x16\x03\x01\x02\x00", b"GET / HTTP/9\r\n\r\n", b"A" * 70_000, b"GET http://[ HTTP/1.1\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", served.port)) as connection:
            connection.settimeout(10)
            connection.sendall(nonsense)
            connection.shutdown(socket.SHUT_WR)
            try:
                answer = connection.recv(1000)
            except ConnectionResetError:
                answer = b""
        assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
    assert httpx.get(served.address).status_code == 200


def test_it_is_served_over_tls(tmp_path):
    make_certificates(tmp_path, hosts=["127.0.0.1"], workers=["page"])
    secret = next(tmp_path.rglob("page.token"))
    files = {"certificate": tmp_path / "server.pem", "key": tmp_path / "server.key", "token": secret}
    made = Served(Dashboard(host="0.0.0.0", port=0, **files), board_of())
    try:
        here = f"https://127.0.0.1:{made.port}/"
        token = secret.read_text().strip()
        with httpx.Client(verify=client_context(tmp_path / "ca.pem"), follow_redirects=True) as client:
            assert client.get(here).status_code == 401
            assert client.get(f"{here}?token={token}").status_code == 200
        assert made.address.startswith("https://")
    finally:
        made.close()


def test_beyond_this_machine_it_takes_a_token_and_tls():
    with pytest.raises(BadInput, match="certificate and key, or insecure"):
        Served(Dashboard(host="0.0.0.0", port=0))
    made = Served(Dashboard(host="0.0.0.0", port=0, insecure=True), board_of())
    try:
        token = made.address.partition("?token=")[2]
        assert len(token) >= 32
        here = f"http://127.0.0.1:{made.port}/"
        assert httpx.get(here).status_code == 401
        assert httpx.get(f"{here}?token={token}", follow_redirects=True).status_code == 200
    finally:
        made.close()


# In virtual time


def test_a_rehearsal_says_where_its_page_is_and_looks_as_often_as_the_page_has_columns(monkeypatch, capsys):
    shown, show = [], Board.show
    monkeypatch.setattr(Board, "show", lambda self, snapshot: shown.append(snapshot) or show(self, snapshot))
    monkeypatch.setattr(server_module, "STALE", math.inf)
    problem = siag.problems.LeastSquares.random(n=2, d=3, p=2, noise=0.1)
    siag.train(problem=problem, until=2000, runtime=siag.Simulated(seed=1), dashboard=0)
    seconds = shown[-1].seconds
    assert seconds > 4 * MOST * SPAN
    assert len(shown) < 1.5 * MOST + MOST / 2 * math.log2(seconds / SPAN / MOST)  # half of them anew when it doubles
    assert re.fullmatch(r"siag: dashboard at http://127\.0\.0\.1:\d+/\n", capsys.readouterr().err)
