"""What Prometheus gets is what its text format allows, and true."""

import math
import re
import socket
import urllib.error
import urllib.request

import prometheus_client
import pytest
from hypothesis import HealthCheck, given, settings
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from snapshots import extreme, snapshot, snapshots, worker

from siag.foundations.errors import BadInput
from siag.live.monitor.metrics import Metrics, families
from siag.server.status import State

quick = settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])


def text_of(shown):
    """What Prometheus would get."""

    class Collector:
        def collect(self):
            return families(shown)

    registry = CollectorRegistry()
    registry.register(Collector())
    return generate_latest(registry).decode()


def parse(text):
    """As Prometheus' own parser reads it: {name: (type, {labels: value})}, no series twice."""
    found = {}
    for family in text_string_to_metric_families(text):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        samples = {frozenset(sample.labels.items()): sample.value for sample in family.samples}
        assert len(samples) == len(family.samples)
        assert {sample.name for sample in family.samples} == {name}
        found[name] = (family.type, samples)
    return found


def values(found, name, label=None):
    """The value of a metric, or its values by label."""
    samples = found[name][1]
    return samples[frozenset()] if label is None else {dict(key)[label]: value for key, value in samples.items()}


def fetch(metrics):
    with urllib.request.urlopen(f"http://127.0.0.1:{metrics.port}/metrics", timeout=10) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


@pytest.fixture
def metrics():
    server = Metrics()
    yield server
    server.close()


@quick
@given(snapshots)
def test_any_snapshot_is_valid_text_format(shown):
    found = parse(text_of(shown))
    assert values(found, "siag_iterations_total") == shown.version
    assert sum(values(found, "siag_workers", "state").values()) == len(shown.workers)
    if shown.workers:
        assert list(values(found, "siag_worker_reports_total", "worker").values()) == [
            each.reports for each in shown.workers
        ]
    if shown.ages:
        assert list(values(found, "siag_report_ages_total", "bin").values()) == list(shown.ages)


def test_the_numbers_are_those_of_the_snapshot():
    away = worker(1, state="away", refused=4, age=-1, silent=math.inf)
    told = {"progressive": 0.5, "metrics": {"accuracy": 0.9}, "warnings": ("it swings", "it is zero")}
    here = worker(0, loss=0.75, share=0.5, weight=12.0)
    found = parse(text_of(snapshot(workers=(here, away), refused=4, problems=("disk full",), step=0.01, **told)))
    assert {name: found[name][0] for name in found} == {
        "siag_iterations_total": "counter",
        "siag_iterations_target": "gauge",
        "siag_reports_total": "counter",
        "siag_refused_total": "counter",
        "siag_updates_per_second": "gauge",
        "siag_running_seconds": "gauge",
        "siag_loss": "gauge",
        "siag_saved_seconds": "gauge",
        "siag_progressive_loss": "gauge",
        "siag_problems": "gauge",
        "siag_warnings": "gauge",
        "siag_report_ages_total": "counter",
        "siag_workers": "gauge",
        "siag_worker_reports_total": "counter",
        "siag_worker_refused_total": "counter",
        "siag_worker_reports_per_second": "gauge",
        "siag_worker_age": "gauge",
        "siag_worker_loss": "gauge",
        "siag_worker_share": "gauge",
        "siag_worker_weight": "gauge",
        "siag_step": "gauge",
        "siag_metric": "gauge",
        "siag_worker_silent_seconds": "gauge",
    }
    assert values(found, "siag_loss") == 0.25
    assert values(found, "siag_refused_total") == 4
    assert values(found, "siag_problems") == 1
    assert values(found, "siag_warnings") == 2
    assert values(found, "siag_progressive_loss") == 0.5
    assert values(found, "siag_worker_loss", "worker") == {"edge-0": 0.75}  # edge-1 tells none
    assert values(found, "siag_worker_share", "worker") == {"edge-0": 0.5}  # edge-1's is not known
    assert values(found, "siag_worker_weight", "worker") == {"edge-0": 12.0, "edge-1": 1.0}
    assert values(found, "siag_step") == 0.01
    assert values(found, "siag_metric", "name") == {"accuracy": 0.9}
    assert values(found, "siag_report_ages_total", "bin") == {"0": 3000, "1": 1000, "2-3": 321}
    assert values(found, "siag_workers", "state") == dict.fromkeys(State, 0) | {"working": 1, "away": 1}
    assert values(found, "siag_worker_refused_total", "worker") == {"edge-0": 0, "edge-1": 4}
    assert values(found, "siag_worker_age", "worker") == {"edge-0": 0}  # edge-1 never reported
    assert values(found, "siag_worker_silent_seconds", "worker") == {"edge-0": 0.1, "edge-1": math.inf}


def test_what_is_unknown_is_absent_and_what_is_nan_is_nan():
    found = parse(text_of(snapshot(loss=None, saved=None, target=None)))
    assert not {"siag_loss", "siag_saved_seconds", "siag_iterations_target"} & set(found)
    assert math.isnan(values(parse(text_of(extreme(200))), "siag_loss"))


def test_names_are_escaped_and_told_apart():
    names = ['a"b\\n\n{c}', "café", "half \ud800", "half \ud801"]
    shown = snapshot(workers=tuple(worker(row, name=name) for row, name in enumerate(names)))
    found = values(parse(text_of(shown)), "siag_worker_reports_total", "worker")
    assert list(found) == ['a"b\\n\n{c}', "café", "half \\ud800", "half \\ud801"]


def test_the_latest_snapshot_is_served(metrics):
    kind, text = fetch(metrics)
    assert kind.startswith("text/plain; version=")
    assert text == ""
    for version in (1, 2):
        metrics.show(snapshot(version=version))
        metrics.event("not a number")
        assert values(parse(fetch(metrics)[1]), "siag_iterations_total") == version


def test_a_client_that_goes_away_disturbs_nobody(metrics, capfd):
    metrics.show(snapshot(200))
    for request in (b"", b"GET", b"GET /metrics HTTP/1.0\r\n\r\n", b"\x00\xff\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", metrics.port), timeout=10) as client:
            client.sendall(request)
    assert parse(fetch(metrics)[1])
    assert capfd.readouterr() == ("", "")


def test_a_port_in_use_is_refused_and_free_again_after_close(metrics):
    with pytest.raises(BadInput) as caught:
        Metrics(port=metrics.port)
    line = f"port = {metrics.port}: must be one to listen on at 127.0.0.1 (address already in use); choose another port"
    assert str(caught.value).startswith(line)
    fetch(metrics)  # leaves a connection behind that the system still remembers
    metrics.close()
    metrics.close()
    with pytest.raises(urllib.error.URLError):
        fetch(metrics)
    again = Metrics(port=metrics.port)
    assert again.port == metrics.port
    again.close()


def test_other_machines_may_ask_only_if_that_was_said():
    open_to_all = Metrics("0.0.0.0", insecure=True)
    assert open_to_all.host == "0.0.0.0"
    open_to_all.close()


def test_a_name_that_means_another_address_than_it_seems_is_found_out(monkeypatch):
    listen, made = prometheus_client.start_http_server, []

    def elsewhere(port, host, registry):
        made.append(listen(port, "0.0.0.0", registry))
        return made[0]

    monkeypatch.setattr(prometheus_client, "start_http_server", elsewhere)
    with pytest.raises(BadInput, match="loopback"):
        Metrics("localhost")
    assert made[0][0].fileno() == -1  # closed


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ({"port": 65536}, "port = 65536: must be a whole number from 0 to 65535"),
        ({"port": -1}, "port = -1"),
        ({"port": True}, "port = True"),
        ({"host": "192.0.2.1", "insecure": True}, "port = 0: must be one to listen on at 192.0.2.1 (cannot"),
        ({"host": "192.0.2.1"}, "host = '192.0.2.1': must be a loopback address"),
        ({"host": "0.0.0.0"}, "host = '0.0.0.0': must be a loopback address"),
        ({"host": ""}, "host = '': must be a loopback address"),
        ({"host": "no such host"}, "host = 'no such host': must be an address of this machine"),
    ],
)
def test_an_address_that_cannot_be_is_one_clear_line(where, words):
    with pytest.raises(BadInput, match=re.escape(words)) as caught:
        Metrics(**where)
    assert "\n" not in str(caught.value)
