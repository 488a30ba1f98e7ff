"""A search for a less discriminatory alternative: what was searched, what was found, what further
search could gain, and what was not searched.
"""

from __future__ import annotations

from evenhand.fairlib.catalogue import spoken
from evenhand.fairlib.tuning.study import shown_chance
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.page_model import Block, Documents, Json, Section, Table, Value
from evenhand.tasks.tuning.alternatives_text import (
    MOST_SHARE,
    as_good_words,
    bound_sentences,
    found_sentence,
    percent,
    percent_rounded_up,
    rounded_up,
)

PAGES = {"tune": 5}
NEEDS = ("alternative",)
FIRST = ("tune",)

ASSUMPTIONS = (
    "The bound on the **share** assumes nothing about the metric. The random settings are drawn "
    "independently of each other and of all results, and it holds at whatever moment the search "
    "stops. It is about settings drawn like these: each method with the same chance, a uniform "
    "value of each parameter of it (of its logarithm where the table says so), under the best rule "
    "of decisions. Better means a better value on these rows than that of the best found, with all "
    "that an alternative keeps; the value of the best found, as the best of many, is itself too "
    "good. A setting that cannot be trained counts as no better. "
    "The bound on the **mean gain** of one further random model is this share of all that the "
    "metric could still gain: it assumes nothing either. "
    "The bound on the **gain** of many takes the largest "
    "values of the random settings as a sample of a generalised Pareto distribution that is no "
    "heavier than an exponential one. Where the values contradict that, no bound is given. It is "
    "about further random settings: a guided search that went on could gain more."
)
NOT_SEARCHED = (
    "Not searched: other methods and ranges than these, other features than those of the table, "
    "other labels, other ways of collecting data, and combinations of models. Values are of the "
    "training rows, each predicted by a model that was not trained on it; the tables of validation "
    "and test rows are in this page too. Models that did not end in time do not count."
)


def build(documents: Documents) -> Section:
    """Sentences on what was found and on the bounds, and tables of the space and of people."""
    content = documents["alternative"]
    sentences = [found_sentence(content), *bound_sentences(content)]
    blocks: list[Block] = [f"{formats.sentence(text)}." for text in sentences]
    blocks.append(_summary(content))
    blocks.append(ASSUMPTIONS)
    if content["multiplicity"] is not None:
        blocks += _people(content["multiplicity"])
    blocks.append(Table("The space that was searched", ["Part", "Values"], _space(content)))
    blocks.append(NOT_SEARCHED)
    return Section("alternative", "Less discriminatory alternatives", blocks)


def _summary(content: Json) -> Table:
    """The numbers of the search."""
    metric = content["metric"]
    rows = _subject(content)
    rows += [
        [f"{metric} of the model", f"{content['champion']['value']:.4f}"],
        [f"{metric} of the best alternative", f"{content['best']['value']:.4f}"],
    ]
    if "best_with_one_rule" in content:
        name = f"{metric} of the best without thresholds by group"
        rows.append([name, f"{content['best_with_one_rule']['value']:.4f}"])
    rows.append(["Difference (alternative_gap)", f"{content['alternative_gap']:.4f}"])
    allowed = content.get("allowed")
    if allowed is not None:
        word = "above it" if content["alternative_gap"] > allowed else "within it"
        rows.append(["Largest difference that was asked for", f"{allowed:g}: {word}"])
    held = content.get("held")
    if held is not None:
        name = "an alternative that is no worse on unseen rows"
        rows.append([f"{content['metric']} of {name}", f"{held['value']:.4f}"])
        words = "Chance that it is no worse there by more than an alternative may be"
        rows.append([words, shown_chance(held["chance"])])
    rows += _kept(content)
    rows += _searched(content)
    share = percent_rounded_up(content["share_bound"])
    rows.append(["Bound on the share of better settings", share])
    if content.get("mean_gain_bound") and content["share_bound"] < MOST_SHARE:
        name = "Bound on the mean gain of one further random model"
        rows.append([name, rounded_up(content["mean_gain_bound"])])
    gain = "not known"
    if content["gain_bound"] is not None:
        gain = rounded_up(content["gain_bound"], 3)
    rows.append([f"Bound on the gain of {content['longer']:g} times the random models", gain])
    if content["tail"]:
        rows.append(["Values in the tail", str(content["tail"])])
    if content["p_value"] is not None:
        rows.append(["p-value of the tail’s distribution", f"{content['p_value']:.2f}"])
    return Table("The search in numbers", ["Quantity", "Value"], rows, pairs=True)


def _kept(content: Json) -> list[list[Value]]:
    """What an alternative keeps."""
    rows: list[list[Value]] = []
    for item in content["no_worse"]:
        rows.append([f"{item['metric']} of the model", f"{item['value']:.4f}"])
        rows.append(["An alternative keeps", item["limit"]])
    # studies of older versions lack it
    rows += [["A further limit that it keeps", limit] for limit in content.get("where") or []]
    return rows


def _searched(content: Json) -> list[list[Value]]:
    """How many models and settings there were."""
    rows: list[list[Value]] = []
    rows.append(["Models that were judged on all folds", str(content["judged_models"])])
    if "distinct" in content:
        rows.append(["Of these with different values", str(content["distinct"])])
    rows.append(["Settings: models under a rule of decisions", f"{content['settings']:,}"])
    rows.append(["Independent random models", str(content["random"])])
    if "random_failed" in content:
        rows.append(["Of these that could not be judged", str(content["random_failed"])])
    as_good = "Of these no worse than the model"
    if content.get("where"):
        as_good += ", and within the further limits"
    rows.append([as_good, str(content["random_as_good"])])
    # studies of older versions lack it
    if "seed" in content:
        rows.append(["Seed that draws the random models", str(content["seed"])])
    return rows


def _subject(content: Json) -> list[list[Value]]:
    """The model, the table and the study that the numbers are of; older studies lack the last."""
    model = content["to"]
    if content.get("model"):
        named = content["model"]
        model = f"{named['name']} version {named['version']}" if named["version"] else named["uri"]
    rows: list[list[Value]] = [["The model", model], ["Its job", content.get("job", "")]]
    if "table" in content:
        rows.append(["Study", content["study"]])
        rows.append(["SHA-256 of the table", content["table"]])
        rows.append(["Training rows, judged in so many folds", _rows_and_folds(content)])
    return rows


def _rows_and_folds(content: Json) -> str:
    return f"{content['rows']:,} in {content['folds']}"


def _people(counts: Json) -> list[Block]:
    """How decisions depend on the choice among equally good models, by group."""
    text = (
        f"{formats.sentence(as_good_words(counts))}: per person, on average "
        f"{percent(counts['mean'])} of these decide otherwise than the model. Groups of fewer than "
        f"{counts['min_cell']} people are not shown, nor is one from which theirs would follow."
    )
    rows: list[list[Value]] = []
    for attribute, groups in counts["by_group"].items():
        for name, group in groups.items():
            if group is None:
                continue
            rows.append(
                [
                    f"{spoken(attribute)}: {name}",
                    f"{group['people']:,.0f}",
                    percent(group["ambiguity"]),
                    percent(group["mean"]),
                ]
            )
    columns = ["Group", "People", "Decided otherwise by some", "Mean share that decides otherwise"]
    return [text, Table("Decisions that depend on the choice of the model", columns, rows)]


def _space(content: Json) -> list[list[Value]]:
    """The methods with their ranges, and the rules of decisions."""
    rows: list[list[Value]] = [list(row) for row in content["space"]]
    rows.append(["Rules of decisions", formats.join(content["rules"])])
    return rows
