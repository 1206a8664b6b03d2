"""The files of examples/cluster and the page that explains them, as far as they can be checked without a cluster."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest
import yaml

from siag.cli import siag as group
from siag.live.protocol.wire import HEADER

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "examples" / "cluster"
PAGE = (ROOT / "docs" / "howto" / "cluster.md").read_text()
SCRIPT = FOLDER / "train.py"

JOB = {  # the fields of KubeRay's ray.io/v1 that a job for siag may have
    "entrypoint",
    "runtimeEnvYAML",
    "shutdownAfterJobFinishes",
    "ttlSecondsAfterFinished",
    "backoffLimit",
    "activeDeadlineSeconds",
    "submissionMode",
    "rayClusterSpec",
}
CLUSTER = {"rayVersion", "enableInTreeAutoscaling", "autoscalerOptions", "headGroupSpec", "workerGroupSpecs"}
HEAD = {"rayStartParams", "template", "serviceType"}
GROUP = {"groupName", "replicas", "minReplicas", "maxReplicas", "rayStartParams", "template", "idleTimeoutSeconds"}
NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def machines():
    """What `ray up` is given."""
    return yaml.safe_load((FOLDER / "ray-cluster.yaml").read_text())


def job():
    """What `kubectl apply` is given."""
    (document,) = yaml.safe_load_all((FOLDER / "kuberay.yaml").read_text())
    return document


@pytest.mark.thorough
def test_ray_accepts_the_machines():
    from ray.autoscaler._private.util import prepare_config, validate_config

    prepared = prepare_config(machines())
    validate_config(prepared)
    with pytest.raises(Exception, match="workers_of_mine"):
        validate_config({**prepared, "workers_of_mine": 3})
    assert all(kind["max_workers"] >= kind["min_workers"] for kind in prepared["available_node_types"].values())


@pytest.mark.thorough
def test_the_local_machines_of_the_comment_are_accepted_too():
    from ray.autoscaler._private.util import prepare_config, validate_config

    given = machines()
    del given["available_node_types"], given["head_node_type"], given["max_workers"]
    given["provider"] = {"type": "local", "head_ip": "10.0.0.1", "worker_ips": ["10.0.0.2", "10.0.0.3"]}
    validate_config(prepare_config(given))


def options_of(command):
    """The options that Ray's own command has."""
    from ray.scripts.scripts import cli

    for word in command:
        cli = cli.commands[word]
    return {option for each in cli.params if isinstance(each, click.Option) for option in each.opts}


@pytest.mark.thorough
def test_ray_start_has_the_options_that_are_used():
    commands = [*machines()["head_start_ray_commands"], *machines()["worker_start_ray_commands"]]
    given = {option for command in commands for option in re.findall(r"--[\w-]+", command)}
    started = set(job()["spec"]["rayClusterSpec"]["headGroupSpec"]["rayStartParams"])
    assert given | {f"--{name}" for name in started} <= options_of(["start"])
    assert len(given) >= 5
    named = set(re.findall(r"`(--[\w-]+)`", PAGE.split("## Ports")[1].split("## Shards")[0]))
    assert named <= options_of(["start"])
    assert "--node-manager-port" in named


def test_the_job_has_what_kuberay_needs_and_nothing_that_it_does_not_know():
    given = job()
    assert (given["apiVersion"], given["kind"]) == ("ray.io/v1", "RayJob")
    assert NAME.fullmatch(given["metadata"]["name"])
    spec = given["spec"]
    cluster = spec["rayClusterSpec"]
    assert spec.keys() <= JOB
    assert cluster.keys() <= CLUSTER
    assert cluster["headGroupSpec"].keys() <= HEAD
    assert {"rayStartParams", "template"} <= cluster["headGroupSpec"].keys()
    for each in cluster["workerGroupSpecs"]:
        assert each.keys() <= GROUP
        assert {"groupName", "rayStartParams", "template"} <= each.keys()
        assert 0 <= each["minReplicas"] <= each["replicas"] <= each["maxReplicas"]
        assert NAME.fullmatch(each["groupName"])
    for each in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        assert all(isinstance(value, str) for value in each["rayStartParams"].values())
        check_pod(each["template"]["spec"])


def check_pod(pod):
    """A pod that Kubernetes would take."""
    assert pod["restartPolicy"] in ("Always", "OnFailure", "Never")
    for container in pod["containers"]:
        assert NAME.fullmatch(container["name"])
        assert container["image"]
        for kind in ("requests", "limits"):
            assert re.fullmatch(r"\d+(\.\d+)?|\d+m", container["resources"][kind]["cpu"])
            assert re.fullmatch(r"\d+(Mi|Gi)", container["resources"][kind]["memory"])
        for port in container.get("ports", ()):
            assert 0 < port["containerPort"] < 65536
            assert len(port["name"]) <= 15
            assert NAME.fullmatch(port["name"])


def test_the_jobs_workers_fit_in_the_pods():
    words = shlex.split(job()["spec"]["entrypoint"])
    sites, fewest = (int(words[words.index(name) + 1]) for name in ("--sites", "--fewest"))
    (pods,) = job()["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    (container,) = pods["template"]["spec"]["containers"]
    cpus = int(container["resources"]["requests"]["cpu"])
    assert pods["maxReplicas"] * cpus >= sites + 1  # and the server
    assert pods["minReplicas"] * cpus >= fewest + 1


def test_all_files_have_one_version_of_ray_and_one_image():
    texts = {path.name: path.read_text() for path in FOLDER.iterdir() if path.is_file()}
    versions = set(re.findall(r"rayproject/ray:(\d+\.\d+\.\d+)", "".join(texts.values())))
    (installed,) = set(re.findall(r"ray\[default\]==([\d.]+\d)", PAGE))
    assert versions == {job()["spec"]["rayClusterSpec"]["rayVersion"]} == {installed}
    assert set(re.findall(r"image: (registry\S+)", texts["kuberay.yaml"])) == {"registry.example/siag"}
    assert "-t registry.example/siag " in texts["Dockerfile"]
    assert "-t registry.example/siag " in PAGE


def commands():
    """The lines of the page's blocks that are commands."""
    for block in re.findall(r"^```sh\n(.*?)^```", PAGE, flags=re.M | re.S):
        yield from (line for line in block.splitlines() if re.match(r"(ray|siag|kubectl|helm|pip|git|docker) ", line))


@pytest.mark.thorough
def test_the_pages_commands_of_ray_and_siag_exist_with_their_options():
    seen = set()
    for line in commands():
        words, _, job_words = line.rstrip(" &").partition(" -- ")
        first, *rest = shlex.split(words)
        if first == "siag":
            check_siag(rest)
        if first == "ray":
            path = [word for word in rest[:2] if not word.startswith("-") and "/" not in word]
            assert {word for word in rest if word.startswith("--")} <= options_of(path), line
            seen.add(" ".join(path))
        if job_words.startswith("siag "):
            check_siag(shlex.split(job_words)[1:])
    assert seen == {"up", "submit", "down", "dashboard", "job submit"}


def siags_options(command):
    """The options that a command of siag has."""
    found = group.commands[command]
    return {option for each in found.get_params(click.Context(found)) for option in each.opts}


def check_siag(words):
    """Known options."""
    known = siags_options(words[0])
    assert {word for word in words if word.startswith("--")} <= known, words


def test_the_script_has_the_options_that_it_is_given_everywhere():
    asked = subprocess.run([sys.executable, SCRIPT, "--help"], capture_output=True, text=True, check=True).stdout
    known = set(re.findall(r"--[\w-]+", asked))
    uses = [job()["spec"]["entrypoint"], *re.findall(r"train\.py(?: --)?( --[^`\n]*)", PAGE)]
    assert len(uses) >= 4
    for use in uses:
        assert set(re.findall(r"--[a-z][\w-]*", use)) <= known, use


@pytest.mark.thorough
def test_the_script_trains_here(tmp_path):
    words = [sys.executable, SCRIPT, "--local", "--sites", "2", "--readings", "3000"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert float(re.search(r"readings, ([\d.]+) % off", done.stdout).group(1)) < 50


def test_what_the_page_says_of_ray_is_what_ray_takes():
    from dataclasses import fields

    from siag.runtimes import Ray

    table = PAGE.split("## Resources")[1].split("## Failures")[0]
    rows = [line.split("|")[1:3] for line in table.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`(\w+)=", row[0])}
    assert named == {field.name for field in fields(Ray)} - {"address"}
    options = {option for row in rows for option in re.findall(r"--[\w-]+", row[1])}
    assert options <= siags_options("train")
    assert len(options) == len(named)


def test_every_file_the_page_points_to_exists():
    targets = re.findall(r"\]\((?!http)([^)#]+)", PAGE)
    assert len(targets) >= 6
    for target in targets:
        assert (ROOT / "docs" / "howto" / target).exists(), target


UNITS = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}


def test_the_table_of_sizes_is_what_it_is_computed_from():
    between = PAGE.split("<!-- sizing")[1].split("<!-- end of sizing -->")[0]
    rows = [re.split(r" *\| *", line)[1:7] for line in between.splitlines() if re.match(r"\| \d", line)]
    assert len(rows) == 9
    costs = {int(d.replace(",", "")): 1e-6 * float(us.replace(",", "")) for us, d in COST.findall(between)}
    assert len(costs) == 3
    for row in rows:
        n, d = (int(cell.replace(",", "")) for cell in row[:2])
        assert bytes_of(row[2]) == pytest.approx(8 * n * d, rel=0.005)
        assert bytes_of(row[3]) == pytest.approx(2 * (8 * d + HEADER.size), rel=0.005)
        network = 10e9 / 8 / (8 * d + HEADER.size)
        server = 1 / (np.interp(d, list(costs), list(costs.values())) * max(1, d / max(costs)))
        assert float(row[4].replace(",", "")) == pytest.approx(min(network, server), rel=0.1)  # costs are printed in µs
        assert row[5] == ("network" if network < server else "server") or network == pytest.approx(server, rel=0.05)


COST = re.compile(r"([\d,]+) µs at d = ([\d,]*\d)")


def bytes_of(cell):
    number, unit = cell.split()
    return float(number.replace(",", "")) * UNITS[unit]
