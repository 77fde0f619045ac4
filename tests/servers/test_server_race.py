"""A race between servers: its lane steps and trace, servers that fail, and the requests of visitors."""

import json
from time import perf_counter

import pytest
from fakeserver import WORDS, Fake, serving

from lookahead.core.events import LookaheadError, PromptError, SettingsError
from lookahead.server import form, race_job
from lookahead.server.state import ServerState
from lookahead.servers import addresses
from lookahead.servers.addresses import RemoteError, server_at
from lookahead.servers.client import Timeouts
from lookahead.servers.race import ServerRace
from lookahead.trace import results, wire
from lookahead.trace.trace import Trace

pytestmark = pytest.mark.engines

RUNS = (2, 0, 4, 1)
SHORT = Timeouts(connect_s=2, first_s=1, between_s=0.5, total_s=3)
MAX_TOKENS = 24


def raced(plain, fast, timeouts=SHORT, in_parallel=False):
    """Race two fake servers: return the race, its lane steps, and the error at its end or None."""
    with serving(plain) as plain_url, serving(fast) as fast_url:
        fast_url = fast_url.replace("127.0.0.1", "localhost") if in_parallel else fast_url
        race = ServerRace(
            [server_at(plain_url, "plain", {}), server_at(fast_url, "fast", {})],
            "A prompt",
            MAX_TOKENS,
            timeouts=timeouts,
        )
        lane_steps = []
        try:
            for lane_step in race:
                if lane_step:
                    lane_steps.append(lane_step)
        except RemoteError as error:
            return race, lane_steps, error
    return race, lane_steps, None


@pytest.mark.parametrize("kind", ["vllm", "sglang", "llama-server", "openai"])
def test_a_race_between_servers_is_recorded_like_any_other(kind):
    race, lane_steps, error = raced(Fake(kind, speed=0.004), Fake(kind, RUNS, speed=0.004))
    assert error is None and race.methods == ["naive", "fast"]
    trace = Trace.from_json(race.result().to_json())
    plain, fast = trace.lanes
    assert [lane.text for lane in trace.lanes] == ["".join(WORDS[:MAX_TOKENS])] * 2
    assert [lane.options for lane in trace.lanes] == [{"server": name, "kind": kind} for name in ("plain", "fast")]
    assert plain.steps[0].kind == fast.steps[0].kind == "prefill" and plain.steps[0].seconds >= 0.003
    assert plain.steps[-1].finish == fast.steps[-1].finish == "length"
    assert trace.agreement(1) == results.Badge(True, "identical")
    assert fast.clock_s > 0 and plain.clock_s > 0 and trace.verdict()["sentence"]
    assert len(fast.steps) < len(plain.steps)
    assert [lane_step.step.emitted for lane_step in lane_steps if lane_step.lane == 1] == [
        step.emitted for step in fast.steps
    ]
    stats = trace.stats(1)
    if kind == "openai":
        assert fast.streamed and stats["num_draft_tokens"] == 0, "no counts are sent"
        assert "as streamed" in trace.verdict()["sentence"]
        return
    steps = len(Fake(kind, RUNS).passes(MAX_TOKENS)) - 1
    assert stats["num_draft_tokens"] == 4 * steps and "do not report which ones" in trace.verdict()["sentence"]
    assert [step.drafted for step in fast.verified] == [None, *[4] * steps]
    assert [step.accepted for step in fast.verified][1:steps] == [RUNS[i % 4] for i in range(steps - 1)]
    assert trace.stats(0)["num_draft_tokens"] == 0 and fast.tokens == [*range(MAX_TOKENS)]


def test_one_server_races_itself_with_and_without_speculation():
    environ = {"LOOKAHEAD_SERVER_REQUEST_PLAIN": '{"speculative.n_max": 0}'}
    fake = Fake("llama-server", RUNS)
    with serving(fake) as url:
        race = ServerRace(
            [server_at(url, name, environ) for name in ("plain", "fast")], "A prompt", MAX_TOKENS, timeouts=SHORT
        )
        assert not race.in_parallel and [lane_step for lane_step in race if lane_step]
    plain, fast = race.result().lanes
    assert [body.get("speculative.n_max") for _, body in fake.requests] == [0, None]
    assert plain.tokens == fast.tokens and not any(step.drafted for step in plain.verified)
    assert all(step.drafted for step in fast.verified[1:])


def test_servers_on_one_machine_run_in_turn_and_others_at_the_same_time():
    _, lane_steps, _ = raced(Fake(speed=0.01), Fake(speed=0.01))
    lanes = [lane_step.lane for lane_step in lane_steps]
    assert lanes == sorted(lanes)
    race, lane_steps, _ = raced(Fake(speed=0.01), Fake(speed=0.01), in_parallel=True)
    lanes = [lane_step.lane for lane_step in lane_steps]
    assert race.in_parallel and lanes != sorted(lanes)


@pytest.mark.parametrize(
    ("fault", "message"),
    [("kill", "interrupted"), ("stall", "timed out"), ("garbage", "not JSON"), ("error event", "memory")],
)
def test_the_lanes_of_a_race_are_kept_if_a_server_fails(fault, message):
    start = perf_counter()
    race, _, error = raced(Fake(), Fake("vllm", RUNS, fault=fault))
    assert perf_counter() - start < 6
    assert "'fast'" in str(error) and message in str(error)
    plain, fast = race.result().lanes
    assert plain.steps[-1].finish == "length" and len(plain.tokens) == MAX_TOKENS
    assert fast.text.startswith(" w0") and not any(step.finish for step in fast.steps)


def test_a_response_that_cannot_be_recorded_raises_an_error():
    race, _, error = raced(Fake(), Fake("vllm", RUNS, fault="odd ids"))
    assert "'fast'" in str(error) and "does not fit the format of a recording" in str(error)
    assert len(race.result().lanes[0].tokens) == MAX_TOKENS


def test_a_race_can_be_closed_before_it_starts():
    with serving(Fake()) as plain, serving(Fake()) as fast:
        race = ServerRace([server_at(plain, "plain", {}), server_at(fast, "fast", {})], "A prompt")
        race.close()
        assert [*race] == [] and not race.result().lanes[0].steps


def test_both_servers_can_fail():
    _, _, error = raced(Fake(fault="kill"), Fake(fault="garbage"))
    assert "'plain'" in str(error) and "fast" in str(error) and "not JSON" in str(error)


def test_counts_that_differ_from_the_received_tokens_are_reported():
    race, _, error = raced(Fake(), Fake(runs=RUNS, fault="counts"))
    trace = Trace.from_json(race.result().to_json())
    assert error is None and "drafts" in trace.lanes[1].differs and trace.lanes[0].differs == ""
    assert "do not match the received text" in trace.verdict()["sentence"] and trace.stats(1)["num_draft_tokens"] == 0


def test_the_position_of_a_difference_is_reported():
    text = [*WORDS[:5], *(f" x{i}" for i in range(400))]
    race, _, _ = raced(Fake("openai"), Fake("openai", text=text))
    agreement = race.result().agreement(1)
    assert (
        agreement["identical"] is False and agreement["badge"] == f"differs at character {len(''.join(WORDS[:5])) + 2}"
    )


def test_closing_a_race_ends_its_requests():
    with serving(Fake(speed=0.05)) as plain, serving(Fake(speed=0.05)) as fast:
        race = ServerRace([server_at(plain, "plain", {}), server_at(fast, "fast", {})], "A prompt", 200)
        lane_steps = iter(race)
        while next(lane_steps) is None:
            pass
        start = perf_counter()
        lane_steps.close()
        assert perf_counter() - start < 1
        assert race.result().lanes[0].steps


def test_invalid_input_is_refused_before_any_request():
    with serving(Fake()) as url:
        servers = [server_at(url, "plain", {}), server_at(url, "fast", {})]
        for prompt in ("", "  ", None):
            with pytest.raises(PromptError):
                ServerRace(servers, prompt)
        with pytest.raises(SettingsError):
            ServerRace(servers, "A", 0)
        with pytest.raises(SettingsError):
            ServerRace(servers[:1], "A")
    with pytest.raises(RemoteError, match="is it running"):
        ServerRace(servers, "A")


@pytest.fixture
def two(monkeypatch):
    """A pair of servers in the environment variable."""
    with serving(Fake()) as plain, serving(Fake(runs=RUNS)) as fast:
        monkeypatch.setenv("LOOKAHEAD_SERVERS", f"plain={plain},fast={fast}")
        yield plain, fast


def events(batches):
    return [event for batch in batches for event in json.loads(batch)["ev"]]


def test_a_form_starts_a_race_of_servers(models, two):
    assert addresses.offered() == {"servers:plain,fast": "fast vs plain"}
    server, fields = ServerState(models), form.initial_values(ServerState(models).limits, family="servers:plain,fast")
    fields["max_new_tokens"] = MAX_TOKENS
    sent = events(race_job.follow(server, form.RaceForm("A prompt", ["naive", "hybrid"], fields)))
    begin, end = sent[0], sent[-1]
    assert begin["kind"] == "begin" and end["kind"] == "end" and end["reason"] == "finished"
    assert [lane["options"]["server"] for lane in begin["trace"]["lanes"]] == ["plain", "fast"]
    assert end["drafted"][1][1:] == [None, *[4] * (len(Fake(runs=RUNS).passes(MAX_TOKENS)) - 1)]
    assert "family=servers%3Aplain%2Cfast" in begin["link"]
    assert not any(url in json.dumps(sent) for url in two), "addresses are never sent"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"family": "servers:plain,other"}, "not one of this app's servers"),
        ({"family": "servers:http://evil,plain"}, "not one of this app's servers"),
        ({"temperature": 1.0}, "temperature 0"),
        ({"top_k": 5}, "without"),
        ({"max_new_tokens": 10**9}, "limit is 2,000"),
    ],
)
def test_unsupported_options_are_refused(models, two, changes, message):
    server = ServerState(models)
    fields = form.initial_values(server.limits, family="servers:plain,fast") | changes
    with pytest.raises(LookaheadError, match=message):
        form.RaceForm("A prompt", ["naive"], fields)(server)


def test_a_stored_race_has_the_same_counts(two):
    race, _, _ = raced(Fake(), Fake(runs=RUNS))
    log = [event.to_dict() for event in wire.events(race.result())]
    drafted = [event["step"]["drafted"] for event in log if event["kind"] == "step" and event["lane"] == 1]
    assert log[-1]["drafted"][1] == drafted
