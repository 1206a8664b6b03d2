"""The dashboard for Grafana asks for metrics that exist, by labels that they have."""

import json
import re
from pathlib import Path

from snapshots import snapshot, worker

from siag.live.monitor.metrics import families

FILE = Path(__file__).parents[2] / "deploy" / "grafana.json"
METRIC = re.compile(r"siag_[a-z_]+")


def dashboard():
    return json.loads(FILE.read_text("utf-8"))


def exported():
    """The metrics there are, with the labels of each; all of them have a value."""
    told = {"progressive": 0.5, "metrics": {"accuracy": 0.9}, "step": 0.01}
    whole = snapshot(workers=(worker(0, loss=0.75, share=0.5),), **told)
    return {
        f"{family.name}_total" if family.type == "counter" else family.name: set(family.samples[0].labels)
        for family in families(whole)
    }


def expressions():
    return [(panel, target) for panel in dashboard()["panels"] for target in panel["targets"]]


def test_every_metric_that_is_asked_for_exists():
    asked = {name for _, target in expressions() for name in METRIC.findall(target["expr"])}
    asked |= {name for each in dashboard()["templating"]["list"] for name in METRIC.findall(str(each["query"]))}
    assert asked - exported().keys() == set()


def test_every_metric_that_exists_is_asked_for():
    asked = {name for _, target in expressions() for name in METRIC.findall(target["expr"])}
    assert exported().keys() - asked == set()


def test_legends_have_labels_that_the_metrics_have():
    for panel, target in expressions():
        labels = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
        known = set.union(*(exported()[name] for name in METRIC.findall(target["expr"])))
        assert labels <= known, panel["title"]


def test_every_run_and_source_can_be_chosen():
    for panel, target in expressions():
        assert panel["datasource"]["uid"] == target["datasource"]["uid"] == "${source}"
        assert target["expr"].count('instance=~"$run"') == len(METRIC.findall(target["expr"])), panel["title"]
    assert {each["name"] for each in dashboard()["templating"]["list"]} == {"source", "run"}


def test_panels_do_not_overlap():
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
