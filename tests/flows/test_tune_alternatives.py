"""The search for a less discriminatory alternative: to which model, and what it shows."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.csv
import pytest
import yaml
from typer.testing import CliRunner

from evenhand.fairlib.catalogue import possible_gain
from evenhand.fairlib.tuning.budget import Budget
from evenhand.fairlib.tuning.further_search import share_bound
from evenhand.fairlib.tuning.quantiles import LEVELS
from evenhand.fairlib.tuning.study import UNSEEN, Aim, Limit, Trial
from evenhand.flows import tune_champion
from evenhand.flows.cli import app
from evenhand.flows.job_file import load_job
from evenhand.flows.resolved_job import resolve
from evenhand.flows.tune_alternatives import (
    Alternative,
    HeldAlternative,
    NoWorse,
    against_champion,
    better_alternatives,
    bound_on_mean_gain,
    certificate,
    chance_of_less,
    compared,
    distinct_models,
    equally_good,
    has_chance,
    held_alternative,
    is_gain_reached,
    judged_champion,
    merits_of,
    multiplicity_document,
    parse_no_worse,
    provisional,
    record_content,
    with_champion,
)
from evenhand.flows.tune_champion import (
    HeldSearch,
    chosen_alternative,
    names_of_rules,
    seconds_for_holding,
    why_not_held,
)
from evenhand.flows.tune_plan import make_plan
from evenhand.tasks.errors import InputError
from evenhand.tasks.registry.ledger import Record
from evenhand.tasks.registry.record_words import describe_record
from evenhand.tasks.tuning.alternatives_text import NOT_ALL_SOUGHT, NOT_HELD
from evenhand.tasks.tuning.trial_search import Candidate, Plan, Rule
from tests.flows.people import Bench, make_people

GAP = "gap_max.sex"
ALTERNATIVE = Alternative("people", "people", (NoWorse("balanced_accuracy", 0.005),))
AIM = Aim((GAP,), (Limit("balanced_accuracy", ">=", 0.695),), 0.5)


def trial(model: int, accuracy: float, gap: float, kind: str = "random", rule: int = 0) -> Trial:
    metrics = {"balanced_accuracy": {"value": accuracy}, GAP: {"value": gap}}
    return Trial(model, kind, "judged", rule=rule, metrics=metrics)


TRIALS = [
    trial(0, 0.70, 0.20, "job"),
    trial(0, 0.60, 0.01, "job", rule=1),
    trial(1, 0.71, 0.15),
    trial(1, 0.695, 0.12, rule=1),
    trial(2, 0.69, 0.05),
    trial(3, 0.72, 0.08, "search"),
    trial(4, 0.70, 0.30),
]


# what an alternative keeps


def test_what_an_alternative_keeps_is_read() -> None:
    assert parse_no_worse("balanced_accuracy by .005") == NoWorse("balanced_accuracy", 0.005)
    assert NoWorse("auc", 0.01).limit(0.8) == Limit("auc", ">=", 0.79)
    assert NoWorse("log_loss", 0.01).limit(0.4) == Limit("log_loss", "<=", 0.41)


@pytest.mark.parametrize("text", ["balanced_accuracy", "auc by", "auc by -1", "auc by x", "by 1"])
def test_another_form_gets_one_line(text: str) -> None:
    with pytest.raises(InputError, match="is not of the form METRIC by NUMBER"):
        parse_no_worse(text)


def test_an_alternative_to_the_job_itself_has_its_overrides() -> None:
    job, folder = load_job("german-gbdt", ["seed=7", "tune.alternative_to=people.yaml"])
    champion, _, alternative = with_champion(job, folder, None, "people.yaml")
    assert champion.seed == 7
    assert alternative is not None
    assert alternative.to == "people.yaml"


def test_an_alternative_to_another_job_has_its_overrides(publishing: Bench) -> None:
    """Also what measures intersections, which the other job does not name."""
    job = str(publishing.write())
    other = publishing.folder / "other.yaml"
    other.write_text(yaml.safe_dump(publishing.job | {"name": "other"}))
    overrides = [f"tune.alternative_to={other}", "seed=7", "evaluate.min_cell=3"]
    plan = make_plan(job, [*overrides, "tune.minimize=[gap_max.age&sex]"], force=True)
    champion = plan.resolved.job
    assert (champion.seed, champion.evaluate.min_cell) == (7, 3)
    assert champion.evaluate.intersections
    assert plan.alternative is not None
    assert plan.alternative.job == "other"


def test_an_alternative_to_a_job_elsewhere_names_our_files(publishing: Bench) -> None:
    """The tuned job is written next to the searched one, and reads its table from there."""
    job = publishing.write()
    here = resolve(*load_job(str(job)))
    elsewhere = publishing.folder / "elsewhere" / "other.yaml"
    elsewhere.parent.mkdir()
    content = publishing.job | {"name": "other", "seed": 5}
    content["table"] = {**content["table"], "path": f"../{content['table']['path']}"}
    content["contract"] = f"../{content['contract']}"
    elsewhere.write_text(yaml.safe_dump(content))
    plan = make_plan(str(job), [f"tune.alternative_to={elsewhere}"], force=True)
    found = plan.resolved
    assert (found.folder, found.job.seed) == (here.folder, 5)
    assert (found.job.table, found.job.contract) == (here.job.table, here.job.contract)
    assert found.source() == here.source()


def test_a_search_for_holding_alternatives_leaves_time() -> None:
    """A quarter of what is kept for the measurement, and what the search has left."""
    budget = Budget(100.0, started=0.0, clock=lambda: 60.0, reserve=40.0, writing=4.0)
    assert seconds_for_holding(budget) == 9.0
    early = Budget(100.0, started=0.0, clock=lambda: 50.0, reserve=40.0, writing=4.0)
    assert seconds_for_holding(early) == 19.0
    unmeasured = Budget(100.0, started=0.0, clock=lambda: 96.0, reserve=4.0, writing=4.0)
    assert seconds_for_holding(unmeasured) == 2.0
    late = Budget(100.0, started=0.0, clock=lambda: 97.0, reserve=-0.5, writing=4.0)
    assert seconds_for_holding(late) == 1.0
    assert seconds_for_holding(Budget()) == math.inf


def searched_for(trials: list[Trial], aim: Aim, confidence: float | None) -> Any:
    """What a search for alternatives found."""
    plan = SimpleNamespace(aim=aim, alternative=ALTERNATIVE, confidence=confidence)
    return SimpleNamespace(plan=plan, trials=trials)


def test_limits_of_where_decide_by_the_confidence() -> None:
    """Also where the utility has no chance, as it does not follow from decisions."""
    aim = replace(AIM, limits=(*AIM.limits, Limit("impact_ratio.sex", ">=", 0.8)))
    trials = []
    for number, (gap, below) in enumerate(((0.2, 0.9), (0.05, 0.6), (0.1, 0.9))):
        ratio = {"value": 0.95, "low": 0.9, "high": 1.0, "below": below, "above": 1.0}
        item = trial(number, 0.7, gap, "random" if number else "job")
        trials.append(replace(item, metrics=item.metrics | {"impact_ratio.sex": ratio}))
    sure = searched_for(trials, aim, 0.9)
    by_value = searched_for(trials, aim, None)
    assert chosen_alternative(by_value.plan, trials, HeldSearch()) is None
    assert chosen_alternative(sure.plan, trials, HeldSearch()) == trials[2]
    held = HeldSearch(HeldAlternative(trials[1], 0.95, 0.9))
    assert chosen_alternative(sure.plan, trials, held) == trials[1]
    # why the answer by the values is not shown to hold
    assert why_not_held(sure, held) is None
    assert why_not_held(sure, HeldSearch(is_complete=True)) == NOT_HELD
    assert why_not_held(sure, HeldSearch()) == NOT_ALL_SOUGHT
    unsure = searched_for(trials[:2], aim, 0.9)
    assert chosen_alternative(unsure.plan, trials[:2], HeldSearch(is_complete=True)) is None
    assert "--where on unseen rows with a chance of 0.9" in str(why_not_held(unsure, HeldSearch()))
    assert why_not_held(searched_for(trials[:1], aim, 0.9), HeldSearch()) is None


@pytest.mark.parametrize("counts_people", [False, True])
def test_people_and_places_are_drawn_whole_for_alternatives(
    monkeypatch: pytest.MonkeyPatch, *, counts_people: bool
) -> None:
    """Also places, whose rows count each: rows of a place are alike all the same."""
    place = np.repeat(np.arange(20), 5)
    data = SimpleNamespace(y=np.zeros(100), people=place, counts_people=counts_people)
    given: dict[str, Any] = {}
    monkeypatch.setattr(tune_champion, "decisions_of", lambda *_: [np.zeros(100, dtype=bool)])
    monkeypatch.setattr(tune_champion, "read_dataset", lambda _: data)
    monkeypatch.setattr(tune_champion, "held_alternative", lambda *_, **keys: given.update(keys))
    searched = searched_for(TRIALS, AIM, None)
    job = SimpleNamespace(split=SimpleNamespace(test=0.2), seed=0)
    label = SimpleNamespace(favourable_code=1)
    searched.plan.resolved = SimpleNamespace(job=job, contract=SimpleNamespace(label=label))
    searched.rows = SimpleNamespace(train="train")
    store: Any = SimpleNamespace(fetch=lambda name: name)
    assert tune_champion._held_alternative(searched, store, Budget()).is_complete
    assert given["people"] is place
    assert given["unseen"] == pytest.approx(0.25)


def test_limits_follow_from_what_the_champion_has() -> None:
    """The user's own limits stay."""
    own = Limit("auc", ">=", 0.6)
    before = provisional(Aim((GAP,), (own,)), ALTERNATIVE)
    assert before.miss({"balanced_accuracy": {"value": 0.0}, "auc": {"value": 0.7}}) == 0
    assert before.confidence == 0.5
    champion = {"balanced_accuracy": {"value": 0.7}, GAP: {"value": 0.2}}
    aim = against_champion(before, ALTERNATIVE, champion)
    assert aim.limits == (Limit("balanced_accuracy", ">=", 0.695), own)
    for metric, words in ((GAP, "minimize gap_max.sex"), ("balanced_accuracy", "no_worse bal")):
        lacking = champion | {metric: {"value": None}}
        with pytest.raises(InputError, match=f"{words}.*: there is not enough evidence"):
            against_champion(before, ALTERNATIVE, lacking)


def test_values_decide_against_a_champion_at_any_confidence() -> None:
    """Both are compared on the same rows; the confidence is asked of the held alternative."""
    before = provisional(Aim((GAP,), (), 0.9), ALTERNATIVE)
    champion = {"balanced_accuracy": {"value": 0.7}, GAP: {"value": 0.2}}
    aim = against_champion(before, ALTERNATIVE, champion)
    wide = {"value": 0.70, "below": 0.60, "above": 0.80}
    assert aim.miss({"balanced_accuracy": wide}) == 0


def test_a_confidence_is_asked_of_further_limits() -> None:
    own = Limit("auc", ">=", 0.6)
    aim = replace(AIM, limits=(*AIM.limits, own))
    metrics = {**TRIALS[5].metrics, "auc": {"value": 0.61, "below": 0.5, "above": 0.7}}
    trials = [TRIALS[0], replace(TRIALS[5], metrics=metrics)]
    assert [trial.number for trial in better_alternatives(aim, trials, 1)] == ["3"]
    assert better_alternatives(aim, trials, 1, 0.9) == []


def test_a_champion_that_was_not_judged_is_none() -> None:
    failed = replace(TRIALS[0], state="failed", metrics={})
    assert judged_champion([failed, *TRIALS[2:]]) is None
    assert judged_champion(TRIALS) is TRIALS[0]


def test_the_champion_is_judged_under_its_own_rule_first() -> None:
    """Also where a search leaves that rule out."""
    plan = Plan(AIM, {}, [Rule("balanced")], [], 0, [], has_stream=True)
    assert plan.rules(Candidate("job")) == [Rule(), Rule("balanced")]
    assert plan.rules(Candidate("search")) == [Rule("balanced")]
    assert replace(plan, has_stream=False).rules(Candidate("job")) == [Rule("balanced")]


def test_a_metric_that_is_kept_twice_is_refused() -> None:
    job, folder = load_job("german-gbdt", ["tune.alternative_to=people.yaml"])
    twice = ["balanced_accuracy by 0", "balanced_accuracy by 0.005"]
    job = job.model_copy(update={"tune": job.tune.model_copy(update={"no_worse": twice})})
    with pytest.raises(InputError, match="no_worse names balanced_accuracy twice: keep one"):
        with_champion(job, folder, None, "people.yaml")


def test_rules_are_named_with_what_was_tried() -> None:
    rules = [
        Rule("balanced"),
        Rule("equalized_odds by sex", 0.1),
        Rule("equalized_odds by sex", 0.0),
    ]
    rules.append(Rule("job", calibration="isotonic"))
    assert names_of_rules(rules) == [
        "balanced",
        "equalized_odds by sex within 0, 0.1",
        "job",
        "calibration isotonic",
    ]


def test_chances_need_a_metric_of_decisions() -> None:
    of_probabilities = replace(ALTERNATIVE, no_worse=(NoWorse("auc", 0.01),))
    assert has_chance(ALTERNATIVE, 0.9)
    assert not has_chance(ALTERNATIVE, 0.5)
    assert not has_chance(of_probabilities, 0.9)


# what the search shows


def test_the_best_alternative_is_as_good_with_the_smallest_gap() -> None:
    content = certificate(AIM, ALTERNATIVE, TRIALS, [1, 2, 4], seed=0)
    assert content["champion"] == {"number": "0", "value": 0.20}
    assert content["best"] == {
        "number": "3",
        "value": 0.08,
        "label": "model 3",
        "by_group": False,
        "chance": None,
    }
    assert content["alternative_gap"] == 0.12
    assert (content["models"], content["random"], content["random_as_good"]) == (5, 3, 2)
    assert content["share_bound"] == 1.0
    # too few random settings exclude nothing: not even that all others have no gap
    assert content["mean_gain_bound"] == 0.08
    assert content["gain_bound"] is None
    assert content["no_worse"][0]["limit"] == "balanced_accuracy >= 0.695"
    json.dumps(content, allow_nan=False)


def test_the_best_without_thresholds_by_group_is_named_too() -> None:
    by_group = replace(TRIALS[5], tolerance=0.05, decision="equalized_odds by sex")
    trials = [*TRIALS[:5], by_group, TRIALS[6]]
    content = certificate(AIM, ALTERNATIVE, trials, [1, 2, 4], seed=0)
    assert (content["best"]["number"], content["best"]["by_group"]) == ("3", True)
    best_with_one_rule = content["best_with_one_rule"]
    assert (best_with_one_rule["number"], best_with_one_rule["value"]) == ("1.1", 0.12)
    # where the job's own rule has some, only other rules and controls have one for everybody
    changed = [replace(trials[2], decision="balanced"), trial(9, 0.7, 0.11, "blind")]
    by_own_rule = trial(4, 0.7, 0.09)
    for added, number in ((changed[:1], "1"), (changed, "9")):
        own = [TRIALS[0], by_group, by_own_rule, *added]
        content = certificate(AIM, ALTERNATIVE, own, [], seed=0, has_group_rule=True)
        assert content["best_with_one_rule"]["number"] == number


def test_copies_of_a_model_are_one() -> None:
    """By their values: a number that hardly differs makes the same model."""
    copies = [replace(TRIALS[2], model=model, arguments={"eta": model}) for model in (7, 8, 9)]
    assert distinct_models([*copies, TRIALS[3]]) == 2
    assert distinct_models(TRIALS) == 5


@pytest.mark.parametrize("metric", ["gap_max.sex", "impact_ratio.sex"])
def test_less_disparity_on_unseen_rows_has_a_chance(metric: str) -> None:
    """A uniform value on [0, 1] is below one on [.5, 1] with a chance of 3/4: a half is always."""
    uniform = list(LEVELS)
    upper = [0.5 + level / 2 for level in LEVELS]
    first = Trial(0, "job", "judged", metrics={metric: {"value": 0.7, UNSEEN: upper}})
    other = Trial(1, "search", "judged", metrics={metric: {"value": 0.5, UNSEEN: uniform}})
    expected = {"gap_max.sex": 0.75, "impact_ratio.sex": 0.25}[metric]
    assert chance_of_less(metric, other, first) == pytest.approx(expected, abs=0.01)
    assert chance_of_less(metric, first, first) is None
    without = replace(other, metrics={metric: {"value": 0.5}})
    assert chance_of_less(metric, without, first) is None


def test_without_a_better_model_the_champion_is_the_best() -> None:
    content = certificate(AIM, ALTERNATIVE, [TRIALS[0], TRIALS[4], TRIALS[6]], [], seed=0)
    assert content["best"]["number"] == "0"
    assert content["alternative_gap"] == 0.0


def test_the_mean_gain_is_a_share_of_what_is_possible() -> None:
    assert possible_gain("gap_max.sex", 0.08) == 0.08
    assert possible_gain("consistency.sex", 0.75) == 0.25
    assert possible_gain("calibration_gap.sex", 0.3) == 0.3
    assert bound_on_mean_gain(AIM, TRIALS, 300) == 0.08 * share_bound(300)
    # over the best found, which may be the champion
    assert bound_on_mean_gain(AIM, TRIALS[:2], 300) == 0.20 * share_bound(300)
    assert bound_on_mean_gain(AIM, TRIALS[2:], 300) is None


def test_the_gain_asked_for_is_reached_by_enough_random_settings() -> None:
    """Not by the first models alone, however much is allowed."""
    assert not is_gain_reached(AIM, TRIALS, 0, 1.0)
    assert not is_gain_reached(AIM, TRIALS, 300, 0.0001)
    assert is_gain_reached(AIM, TRIALS, 300, 0.0801 * share_bound(300))


def test_a_model_counts_by_its_best_rule_within_the_limits() -> None:
    merits = merits_of(AIM, TRIALS, [1, 2, 4, 9])
    np.testing.assert_array_equal(merits, [-0.12, np.nan, -0.30, np.nan])


def test_equally_good_models_may_have_any_gap() -> None:
    good = equally_good(AIM, TRIALS, 1)
    assert [item.number for item in good] == ["1", "1.1", "3", "4"]


def test_people_are_summarised_by_group() -> None:
    reference = np.array([True, False, True])
    groups = {"sex": np.array(["f", "f", "m"])}
    content = multiplicity_document(
        reference, [~reference, reference], groups, min_cell=2, as_good=9
    )
    assert content is not None
    assert content["as_good"] == 9
    assert content["by_group"]["sex"]["m"] is None
    assert (content["models"], content["ambiguity"], content["mean"]) == (2, 1.0, 0.5)
    assert multiplicity_document(reference, [], groups, min_cell=2, as_good=0) is None


def test_a_person_with_several_rows_is_one_of_a_group() -> None:
    """Five rows of one person are no group of five people."""
    reference = np.array([True] * 8)
    groups = {"sex": np.array(["f"] * 5 + ["m"] * 2 + ["x"])}
    content = multiplicity_document(
        reference,
        [~reference],
        groups,
        min_cell=2,
        as_good=1,
        people=np.array([0, 0, 0, 0, 0, 1, 2, 3]),
    )
    assert content is not None
    assert content["people"] == 4
    assert content["by_group"]["sex"]["f"] is None
    assert content["by_group"]["sex"]["m"]["people"] == 2


def test_of_very_many_models_a_random_part_is_compared() -> None:
    many = [trial(number, 0.7, 0.1) for number in range(1, 1001)]
    part = compared(many, 0)
    assert len(part) == 300
    numbers = [item.model for item in part]
    assert numbers == sorted(set(numbers))
    assert max(numbers) > 900
    assert compared(many[:300], 0) == many[:300]


def test_the_record_of_a_search_is_described() -> None:
    content = certificate(AIM, ALTERNATIVE, TRIALS, [1, 2, 4], seed=0)
    content["model"] = {"name": "people", "version": 3}
    content |= {"min_cell": 5, "folds": 5}
    content |= {"space": [["Space of gbdt", "eta: 0.1 to 0.5"]], "rules": ["job"]}
    kept = record_content({"alternative": content, "study": "people-1"}, "0" * 64)
    record = Record(1, "2026-11-28T00:00:00+00:00", "a", "alternative", kept, "", "")
    assert describe_record(record) == (
        "search for alternatives: gap_max.sex better by 0.12 found in 5 models"
    )
    none = replace(record, content=kept | {"alternative_gap": 0.0})
    assert describe_record(none).endswith(": no better gap_max.sex found in 5 models")
    assert kept["distinct"] == 5
    assert kept["better"] == "lower"
    assert kept["space"] == content["space"]
    assert record._is_valid()
    counts: dict[str, Any] = {
        "models": 2,
        "as_good": 5,
        "people": 9,
        "ambiguity": 0.5,
        "discrepancy": 0.2,
    }
    shown = {"people": 9.0, "ambiguity": 0.5, "mean": 0.1}
    many = {str(number): shown for number in range(31)}
    counts |= {"mean": 0.1, "min_cell": 5}
    counts["by_group"] = {"sex": {"f": shown, "x": None}, "town": many}
    content["multiplicity"] = counts
    kept = record_content({"alternative": content, "study": "people-1"}, "0" * 64)
    # no name of a group that is too small, and no attribute with a name for nearly everybody
    assert kept["multiplicity"] == {**counts, "by_group": {"sex": {"f": shown}}}
    assert not replace(record, content={"version": "3"})._is_valid()


# the command


def tune(bench: Bench, *arguments: str, code: int = 0) -> Any:
    """Run the command in this process."""
    given = ["tune", str(bench.write()), "--direct", "--store", str(bench.store), *arguments]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == code, done.stderr
    return done


def test_the_alternative_of_the_tuned_job_keeps_its_utility() -> None:
    """The one with the least disparity only happens to be as good on the folds."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 2000)
    champion = np.where(rng.random(2000) < 0.7, y, 1 - y) == 1
    # a tenth is decided otherwise, at random; of the other no decision differs
    noisy = np.where(rng.random(2000) < 0.1, ~champion, champion)
    candidates = better_alternatives(AIM, TRIALS, 1)
    assert [trial.number for trial in candidates] == ["3", "1.1", "1"]
    decisions = {"3": noisy, "1.1": champion}
    settings: Any = {"level": 0.9, "unseen": 0.4, "favourable": 1, "seed": 0}

    def decided_by(trial: Trial) -> Any:
        return decisions.get(trial.number)

    held = held_alternative(ALTERNATIVE, candidates, decided_by, champion, y, **settings)
    assert held is not None
    assert held.trial.number == "1.1"
    assert held.to_json(AIM, TRIALS[0])["alternative_gap"] == 0.08
    assert held.chance >= 0.9
    del decisions["1.1"]
    assert held_alternative(ALTERNATIVE, candidates, decided_by, champion, y, **settings) is None


WRONG = {
    "no champion": (["--no-worse", "auc by 0.1"], "need alternative_to"),
    "no alternatives": (["--until-gain", "0.001"], "need alternative_to"),
    "no gain": (["--alternative-to", "people", "--until-gain", "0"], "tune.until_gain"),
    "unknown job": (["--alternative-to", "nobody.yaml"], "alternative_to 'nobody.yaml' cannot be"),
    "unknown model": (["--alternative-to", "models:/nobody/1"], "cannot be loaded: the model"),
    "other table": (["--alternative-to", "hiring-gbdt"], "a job of another table or contract"),
    "wrong form": (["--alternative-to", "people", "--no-worse", "auc"], "METRIC by NUMBER"),
    "unknown metric": (
        ["--alternative-to", "people", "--no-worse", "aucc by .1"],
        "no_worse names 'aucc'",
    ),
    "no disparity": (
        ["--alternative-to", "people", "--minimize", "log_loss"],
        "makes a disparity smaller, and log_loss is none",
    ),
    "a preference": (["--alternative-to", "people", "--prefer", "auc"], "leave prefer out"),
    "two objectives": (
        ["--alternative-to", "people", "--minimize", GAP, "--minimize", "log_loss"],
        "one objective",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_bad_input_gets_one_line(publishing: Bench, name: str) -> None:
    arguments, message = WRONG[name]
    job = publishing.job["name"]
    given = [job if item == "people" else item for item in arguments]
    done = tune(publishing, "--trials", "3", *given, code=2)
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.long
def test_an_alternative_to_a_job_and_to_its_model(publishing: Bench) -> None:
    """Two runs and two searches."""
    small = {"n_steps": 4, "max_depth": 2, "n_iter_no_change": None, "n_jobs": 1}
    publishing.job["method"] = {"name": "gbdt", **small}
    publishing.job["evaluate"]["min_cell"] = 2
    publishing.job["tune"] = {"trials": 14, "folds": 2, "workers": 1, "space": {"reweigh": small}}
    name = publishing.job["name"]
    asked = ("--no-worse", "balanced_accuracy by 0.1", "--json", "--force")
    content = json.loads(tune(publishing, "--alternative-to", name, *asked).stdout)
    found = content["tuning"]["alternative"]
    assert found["random"] >= 2
    assert found["multiplicity"]["models"] >= 1
    assert found["best"]["value"] <= found["champion"]["value"]
    page = (publishing.store / "runs" / content["run_id"] / "report.html").read_text()
    assert "Less discriminatory alternatives" in page
    # the model of the job, as a published one
    published = publishing.run("--json").json
    assert published["status"] == "published"
    address = f"models:/{published['model']['name']}/{published['model']['version']}"
    # the job as it is now must be the one that trained it, gates and measurement aside
    other = tune(publishing, "--alternative-to", address, *asked, "--set", "method.eta=0.9", code=2)
    assert "was trained by another state of the job" in other.stderr
    publishing.job["gates"] = {"auc": {"min": 0.2}}
    again = json.loads(tune(publishing, "--alternative-to", address, *asked).stdout)
    assert again["tuning"]["alternative"]["model"]["version"] == published["model"]["version"]
    history = CliRunner().invoke(
        app, ["history", published["model"]["name"], "--json", "--store", str(publishing.store)]
    )
    records = json.loads(history.stdout)["records"]
    assert records[-1]["kind"] == "alternative"
    assert records[-1]["alternative_gap"] == found["alternative_gap"]
    ask_about_people(publishing, published["model"]["name"], records[-1]["kept"])
    shown = CliRunner().invoke(
        app, ["history", published["model"]["name"], "--store", str(publishing.store)]
    )
    assert "search for alternatives: gap_max." in shown.stdout
    # a search goes on until its random settings suffice, and then ends
    more = ("--set", "tune.trials=60", "--until-gain", "1")
    enough = json.loads(tune(publishing, "--alternative-to", name, *asked, *more).stdout)
    longer = enough["tuning"]["alternative"]
    assert longer["until_gain"] == {"asked": 1.0, "is_reached": True}
    assert found["random"] < longer["random"] < 20
    again = json.loads(tune(publishing, "--alternative-to", name, *asked, *more).stdout)
    assert again["tuning"]["alternative"]["models"] == longer["models"]
    # a gate on the difference
    if found["alternative_gap"] > 0:
        refused = tune(
            publishing, "--alternative-to", name, *asked, "--alternative-gap", "0", code=1
        )
        assert "alternative_gap is" in refused.stderr
    refuse_by_policy(publishing, published["model"]["name"], found["alternative_gap"])
    # the job of an alternative may be a champion too
    tuned = publishing.folder / "job.tuned.yaml"
    after = json.loads(tune(publishing, "--alternative-to", str(tuned), *asked).stdout)
    compared_with = after["tuning"]["alternative"]
    assert compared_with["champion"]["value"] <= found["champion"]["value"]


def ask_about_people(publishing: Bench, model: str, kept: dict[str, Any]) -> None:
    """A case asks the models that the search kept, also by columns that the model does not read."""
    assert 1 <= kept["models"] <= kept["drawn"]
    table = publishing.folder / "applicants.csv"
    pyarrow.csv.write_csv(make_people(12, 4), table)
    command = ["case", model, "--rows", str(table), "--no-proof"]
    made = CliRunner().invoke(app, [*command, "--json", "--store", str(publishing.store)])
    assert made.exit_code == 0, made.output
    for name in json.loads(made.stdout)["cases"]:
        path = publishing.store / "cases" / "files" / name / "case.json"
        person = json.loads(path.read_text())["alternatives"]["person"]
        assert person["models"] == kept["models"]
        assert 0 <= person["low"] <= person["otherwise"] / person["drawn"] <= person["high"] <= 1


def refuse_by_policy(publishing: Bench, model: str, gap: float) -> None:
    """A policy lets the model become champion by the recorded search, or by none."""
    gates = publishing.folder / "policy_gates.yaml"
    gates.write_text("auc: {min: 0}\n")
    holdout = publishing.folder / "holdout.csv"
    pyarrow.csv.write_csv(make_people(300, 9), holdout)
    for models, code, words in (("2", 0, ""), ("999", 1, "and the policy asks for 999")):
        limits = ("--alternative-gap", f"{gap}", "--alternative-models", models)
        limits += ("--alternative-no-worse", "balanced_accuracy by 0.1")
        # as the job has it
        limits += ("--set", "evaluate.min_cell=2")
        for arguments in (
            ("policy", "set", model, "--gates", str(gates), "--holdout", str(holdout), *limits),
            ("evaluate", f"models:/{model}/1", "--policy", "--direct"),
        ):
            made = CliRunner().invoke(app, [*arguments, "--store", str(publishing.store)])
            assert made.exit_code == 0, made.output
        promote = ["promote", f"models:/{model}/1", "--to", f"after-{models}"]
        done = CliRunner().invoke(app, [*promote, "--store", str(publishing.store)])
        assert done.exit_code == code, done.output
        assert words in done.stderr
