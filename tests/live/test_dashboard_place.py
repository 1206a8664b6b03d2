"""Where a dashboard may be: in Python, in the shell, in a file, and who may reach it."""

import pytest

from siag.cli.given import Described
from siag.cli.options import train_options
from siag.experiments.live_file import live_run
from siag.foundations.errors import BadInput, Missing
from siag.live.monitor.dashboard.place import Dashboard, dashboard_of
from siag.live.spec import Spec


@pytest.mark.parametrize(
    ("wanted", "made"),
    [
        (None, None),
        (False, None),
        (True, Dashboard()),
        (7461, Dashboard(port=7461)),
        ("7461", Dashboard(port=7461)),
        ("0.0.0.0:80", Dashboard(host="0.0.0.0", port=80)),
        ("[::1]:80", Dashboard(host="::1", port=80)),
        (Dashboard(port=1), Dashboard(port=1)),
    ],
)
def test_it_is_said_in_several_ways(wanted, made):
    assert dashboard_of(wanted) == made


@pytest.mark.parametrize("wanted", [-1, 65536, "run.toml", "host:", ":80", "a:b:80", "99999", 3.5, [7461], ""])
def test_what_is_no_place_is_refused(wanted):
    with pytest.raises(BadInput, match="dashboard"):
        dashboard_of(wanted)


@pytest.mark.parametrize("wanted", ["99999", "127.0.0.1:65536"])
def test_a_port_that_is_too_large_is_told_its_range(wanted):
    with pytest.raises(BadInput, match="a port from 0 to 65535"):
        dashboard_of(wanted)


def test_a_host_that_is_no_address_is_refused_as_that_of_the_dashboard():
    with pytest.raises(BadInput, match=r"dashboard = 'no\.such\.host\.invalid'.*a name that resolves"):
        Dashboard(host="no.such.host.invalid").check_reach("no.such.host.invalid")


def test_a_file_after_the_option_is_told_apart():
    with pytest.raises(BadInput, match="write the name of a file before --dashboard"):
        dashboard_of("run.toml")


@pytest.mark.parametrize(
    "given",
    [{"host": 5}, {"port": -1}, {"port": "x"}, {"insecure": "yes"}, {"token": 5}, {"certificate": 5, "key": "k"}],
)
def test_parts_of_a_wrong_kind_are_refused(given):
    with pytest.raises(BadInput, match=r"dashboard\."):
        Dashboard(**given)


def test_a_certificate_needs_its_key():
    with pytest.raises(Missing, match="TLS needs both"):
        Dashboard(certificate="server.pem")


def test_only_this_machine_unless_it_is_secured_or_told():
    Dashboard().check_reach("127.0.0.1")
    Dashboard(insecure=True).check_reach("0.0.0.0")
    Dashboard(certificate="c", key="k").check_reach("0.0.0.0")
    with pytest.raises(BadInput, match="certificate and key, or insecure"):
        Dashboard().check_reach("0.0.0.0")


def test_a_server_lends_its_certificate_where_one_is_needed():
    assert Dashboard(host="0.0.0.0").trusting("c", "k", False).certificate == "c"
    assert Dashboard().trusting("c", "k", False).certificate is None
    assert Dashboard(host="0.0.0.0", certificate="d", key="l").trusting("c", "k", True).certificate == "d"


def test_the_shell_has_it_with_and_without_a_port():
    option = next(each for each in train_options() if each.name == "dashboard")
    assert not option.is_flag
    for typed, port in (("on", None), ("8000", 8000)):
        found = Described({"dashboard": typed}, None).spec.dashboard
        assert found == Dashboard(port=port)
    assert Described({"dashboard": None}, None).spec.dashboard is None


def test_a_file_has_it_as_a_value_or_a_table(tmp_path):
    assert live_run({"dashboard": True}, tmp_path).spec["dashboard"] == Dashboard()
    assert live_run({"dashboard": 8000}, tmp_path).spec["dashboard"] == Dashboard(port=8000)
    made = live_run({"dashboard": {"port": 8000, "token": "secret.token"}}, tmp_path).spec["dashboard"]
    assert made.token == tmp_path / "secret.token"
    with pytest.raises(BadInput, match="dashboard"):
        live_run({"dashboard": "here"}, tmp_path)


def test_a_run_knows_where_its_dashboard_is():
    assert Spec(dashboard=8000, names=["a"], w0=[0.0]).validate(serving=True).dashboard == Dashboard(port=8000)
