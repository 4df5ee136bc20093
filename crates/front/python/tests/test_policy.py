"""Answers equal the command line's output, and mistakes have their positions."""

import json
import pickle

import pytest
import weir

from conftest import SCENARIOS

SMALL = """\
weir: 1
network: { nic: 10Gb/s, racks: { r: { uplink: 10Gb/s, machines: [m] } } }
services: { a: { match: [ { port: 1 } ] }, b: { match: [ { port: 2 } ] } }
"""
DEMANDS = ["parley-fig1", "parley-fig5", "parley-fig6"]
TENANTS = ["tenants", "qshare-fig4a-small", "qshare-fig5"]


def named(names, suffix):
    return [SCENARIOS / f"{name}.{suffix}" for name in names]


def test_checks(cli):
    names = ["parley-fig1", "qjump-star-8", "pace-fig8-lab", "plan", "tenants", "qshare-fig5", "four-systems"]
    for path in named(names, "policy.yaml"):
        policy = weir.Policy.load(path)
        checked = cli.json("check", path)
        assert policy.check_json() == checked, path
        assert [remark.to_json() for remark in policy.check()] == checked["diagnostics"], path
        assert len(policy.machines) == checked["machines"]


@pytest.mark.parametrize("name", DEMANDS)
def test_shares_and_explanations(cli, name):
    [path], [demands] = named([name], "policy.yaml"), named([name], "demands.csv")
    policy = weir.Policy.load(path)
    shares = policy.allocate(demands)
    assert shares == cli.json("allocate", path, "--demands", demands)
    assert shares["allocations"]
    first = shares["allocations"][0]
    instance = f"{first['machine']}/{first['service']}"
    explained = policy.explain(demands, instance)
    assert explained == cli.json("explain", path, instance, "--demands", demands)
    assert explained["explanations"][0]["allocation_bps"] == first["allocation_bps"]


@pytest.mark.parametrize("name", TENANTS)
def test_places_and_their_explanations(cli, name):
    [path] = named([name], "policy.yaml")
    policy = weir.Policy.load(path)
    for options in [{}, {"strategy": "oktopus"}, {"order": "names"}]:
        arguments = [word for key, value in options.items() for word in (f"--{key}", value)]
        assert policy.place(**options) == cli.json("place", path, *arguments)
    tenant = policy.tenants[0]
    assert policy.explain_tenant(tenant) == cli.json("explain", path, tenant)


def test_an_earlier_placement_is_continued_and_not_changed(cli, tmp_path):
    [path] = named(["tenants"], "policy.yaml")
    policy, placed = weir.Policy.load(path), tmp_path / "placement.json"
    text = json.dumps(policy.place(order="names"))
    placed.write_text(text)
    assert policy.place(placed=placed)["tenants"] == json.loads(text)["tenants"]
    assert policy.check_json(placed=placed) == cli.json("check", path, "--placed", placed)
    assert placed.read_text() == text


def test_plans(cli, scenarios):
    [path], trace = named(["plan"], "policy.yaml"), scenarios / "plan.trace.csv"
    policy = weir.Policy.load(path)
    assert policy.plan() == cli.json("plan", path)
    options = {"load": "40%", "iterations": 30, "at": ["rack"]}
    assert policy.plan(**options) == cli.json("plan", path, "--load", "40%", "--iterations", 30, "--at", "rack")
    by_trace = policy.plan(trace=trace, by="trace", trace_at=["1Gb/s"])
    assert by_trace == cli.json("plan", path, "--trace", trace, "--by", "trace", "--trace-at", "1Gb/s")
    [levels] = named(["qjump-plan"], "policy.yaml")
    assert weir.Policy.load(levels).plan() == cli.json("plan", levels)


def test_demands_in_every_form_are_the_same(tmp_path):
    policy = weir.Policy.parse(SMALL)
    text = "m,a,tx,4Gb/s\nm,b,tx,unlimited\n"
    file = tmp_path / "demands.csv"
    file.write_text(text)
    columns = ("machine", "service", "direction", "demand")
    tuples = [("m", "a", "tx", 4_000_000_000), ("m", "b", "tx", None)]
    forms = [text, file, tuples, iter(tuples), [dict(zip(columns, row)) for row in tuples]]
    shares = [policy.allocate(form) for form in forms]
    assert shares[0]["allocations"][1]["allocation_bps"] == 6_000_000_000
    assert shares[0]["allocations"][1]["demand_bps"] is None
    assert all(one == shares[0] for one in shares)


def test_mistakes_have_positions_causes_and_hints(cli, tmp_path):
    file = tmp_path / "policy.yaml"
    file.write_text(SMALL.replace("nic: 10", "nic: 010"))
    with pytest.raises(weir.PolicyError) as refused:
        weir.Policy.load(file)
    assert isinstance(refused.value, ValueError)
    first = refused.value.diagnostics[0]
    assert (first.severity, first.file, first.line, first.column) == ("error", str(file), 2, 17)
    assert "`010Gb/s`" in first.cause and "`10Gb/s`" in first.hint
    assert first.fix["text"] == "10Gb/s"
    assert refused.value.to_json() == cli.json("check", file)["diagnostics"]
    assert "policy.yaml:2:17" in str(refused.value)
    copy = pickle.loads(pickle.dumps(refused.value))
    assert copy.to_json() == refused.value.to_json()


def test_mistakes_in_demands_have_the_number_of_their_row():
    policy = weir.Policy.parse(SMALL, name="small.yaml")
    with pytest.raises(weir.PolicyError) as refused:
        policy.allocate([("m", "a", "tx", "1Gb/s"), ("m", "c", "tx", "1Gb/s")])
    first = refused.value.diagnostics[0]
    assert (first.line, first.file) == (2, "<demands>")
    assert "`c`" in first.cause
    for row in [("m", "a", "tx"), ("m", "a", "up", None)]:
        with pytest.raises(weir.PolicyError):
            policy.allocate([row])
    for row in ["m,a,tx,1Gb/s", {"machine": "m"}, ("m", "a", "tx", 1.5), ("m", "a", "tx", "1Gb/s\nm,b,tx,1Gb/s")]:
        with pytest.raises(TypeError, match="row 1 of the demands.*\nhint: "):
            policy.allocate([row])


def test_refused_questions_have_a_cause_and_a_hint():
    policy = weir.Policy.parse(SMALL)
    questions = [
        lambda: policy.explain("m,a,tx,1Gb/s\n", "m/c"),
        lambda: policy.explain("m,a,tx,1Gb/s\n", "m/b"),
        lambda: policy.explain("m,a,tx,1Gb/s\n", "m/a", direction="up"),
        lambda: policy.explain_tenant("red"),
        lambda: policy.place(),
        lambda: policy.plan(),
        lambda: policy.plan(by="trace"),
        lambda: policy.plan(capacity="10Gbs"),
        lambda: policy.plan(load="100%"),
        lambda: policy.check(interface="eth*"),
        lambda: policy.check(interface=".."),
        lambda: weir.Policy.load("no/such/file.yaml"),
    ]
    for number, question in enumerate(questions):
        with pytest.raises(weir.PolicyError) as refused:
            question()
        [first] = refused.value.diagnostics
        assert first.cause and first.hint, number
    with pytest.raises(TypeError, match="`capacity`"):
        policy.plan(capcity="1Gb/s")


def test_a_policy_that_agents_refuse_is_no_valid_one():
    more = ", ".join(f"s{port}: {{ match: [ {{ port: {port} }} ] }}" for port in range(1000, 2100))
    policy = weir.Policy.parse(SMALL.replace("b: {", f"{more}, b: {{"))
    with pytest.raises(weir.PolicyError) as refused:
        policy.check()
    assert policy.check_json()["valid"] is False
    assert refused.value.to_json() == policy.check_json()["diagnostics"]
    assert any("refuse" in remark.cause for remark in policy.check(for_planning=True))
