"""A case file as a page, and the letter to the person."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from evenhand.fairlib.decision_words import NEGATIONS
from evenhand.tasks.cases.letter_texts import (
    ENGLISH,
    FALLBACK,
    LetterTexts,
    letter_texts,
    primary,
)
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.build import render
from evenhand.tasks.pages.page_model import Block, Cell, Front, Page, Section, Table
from evenhand.tasks.tuning.alternatives_text import as_good_words, otherwise_words

Case = Mapping[str, Any]
# Floating-point error below which a share is not moved to the next tenth of a percent.
ROUNDING = 1e-6
OUTCOMES = {"upheld": "The decision was upheld", "changed": "The decision was changed"}
FOOTER = (
    "This file is about one decision of one version of a model. It is no legal advice. It contains "
    "everything that it shows and loads nothing."
)


def case_page(case: Case) -> str:
    """Write a case file as HTML."""
    return render(case_document(case))


def case_document(case: Case) -> Page:
    """Build the page of a case file."""
    return Page(_front(case), [section for section in _sections(case) if section.blocks])


def letter(case: Case) -> str:
    """Write the letter to the person as HTML, in plain language."""
    template = _templates().get_template("letter.html.j2")
    texts = letter_texts(case["language"])
    text: str = formats.printable(
        template.render(
            case=case,
            t=texts,
            others=_in_other_languages(case, texts),
            steps=[recourse_sentence(change, texts.step) for change in case["recourse"]["changes"]],
            day=texts.shown_day(case["made"]["when"][:10]),
        )
    )
    return text


def _in_other_languages(case: Case, texts: LetterTexts) -> list[str]:
    """The principal reasons whose text is in another language than the letter, or in none."""
    other_pages = []
    for reason in case["reasons"]["principal"]:
        # a column's name in words passes for English; cases of earlier releases do not say it
        language = reason.get("language", texts.language) or FALLBACK
        if primary(language) != texts.language:
            other_pages.append(str(reason["text"]))
    return other_pages


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("evenhand.tasks.cases", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def recourse_sentence(change: Mapping[str, Any], form: str = ENGLISH.step) -> str:
    """One change in words: ``years of work: 2 instead of 1``."""
    unit = f" {change['unit']}" if change["unit"] else ""
    return form.format(
        name=change["name"],
        after=f"{change['to_shown']}{unit}",
        before=f"{change['from_shown']}{unit}",
    )


def _front(case: Case) -> Front:
    decision = case["decision"]
    badge = ("passed", "✓", "Favourable decision")
    if not decision["favourable"]:
        badge = ("refused", "✕", "Adverse decision")
    subject = case["subject"]
    who = f"row {subject['row']:,}"
    if subject["identity"]:
        who = ", ".join(f"{name} {value}" for name, value in subject["identity"].items())
    model = case["model"]
    facts = [
        ("Person", Cell(who)),
        ("Model", Cell(model["shown"], code=model["uri"])),
        ("Content", Cell("", code=model["content"])),
        ("Made by", Cell(case["made"]["who"])),
        ("Kept until", Cell(case["keep_until"])),
    ]
    return Front(
        kind="case file",
        title=_title(decision),
        meta=[f"Case {case['case']}"],
        headline=headline(case),
        created=case["made"]["when"],
        badge=badge,
        facts=facts,
        note=_stated(decision),
        verdict_place=0,
        footer=FOOTER,
    )


def _title(decision: Mapping[str, Any]) -> str:
    """The decision, such as ``credit: bad``; a value such as ``hired`` says it alone."""
    label = str(decision["label"]).replace("_", " ")
    decision_shown = str(decision["shown"])
    own_words = [word for word in decision_shown.lower().split() if word not in NEGATIONS]
    says_it_alone = decision_shown.lower().startswith(label.lower())
    if says_it_alone or set(own_words) <= set(label.lower().split()):
        return decision_shown
    return f"{label}: {decision_shown}"


def _stated(decision: Mapping[str, Any]) -> str:
    if decision["favourable_is_stated"]:
        return ""
    return (
        "The contract does not say which outcome is favourable: the positive label was taken for "
        "it."
    )


def headline(case: Case) -> list[str]:
    """Say in sentences what was decided about a person, why, and what would have changed it."""
    decision = case["decision"]
    share = formats.percent(decision["probability_of_favourable"])
    # cases of older versions do not have it
    threshold = decision.get("threshold_of_favourable")
    needed = "" if threshold is None else f", where {formats.percent(threshold)} are needed"
    sentences = [
        f"The decision is “{decision['shown']}”; the model gives “"
        f"{decision['favourable_outcome']}” a probability of {share}{needed}."
    ]
    principal = case["reasons"]["principal"]
    if principal:
        texts = "; ".join(reason["text"] for reason in principal)
        sentences.append(f"Principal reasons: {texts}.")
    sentences.append(_recourse_headline(case["recourse"]))
    sentences += [_comparable_headline(item) for item in case["comparables"]]
    for review in case["reviews"][-1:]:
        sentences.append(f"{OUTCOMES[review['outcome']]} by {review['who']}.")
    return [sentence for sentence in sentences if sentence]


def _recourse_headline(recourse: Mapping[str, Any]) -> str:
    if recourse["status"] == "found":
        steps = " and ".join(recourse_sentence(change) for change in recourse["changes"])
        return f"The decision would have been the favourable one with {steps}."
    if recourse["status"] == "none":
        return "No change of the columns that a person can change leads to the favourable decision."
    if recourse["status"] == "unknown":
        return "No change that leads to the favourable decision was found; there may be one."
    return ""


def _comparable_headline(item: Mapping[str, Any]) -> str:
    by = item["compared_by"]
    if item["status"] == "none":
        return f"No comparable person (by {by}) is decided otherwise: proved."
    if item["status"] == "found":
        return f"A comparable person (by {by}) would be decided otherwise."
    if item["status"] == "unknown":
        return f"Whether a comparable person (by {by}) is decided otherwise is not known."
    return f"There is no proof about comparable people (by {by})."


def _sections(case: Case) -> Iterator[Section]:
    yield from explanation_sections(case)
    yield Section("alternatives", "Equally good models", list(_alternative_blocks(case)))
    yield Section("inputs", "Inputs", list(_input_blocks(case)))
    yield Section("review", "Human review", list(_review_blocks(case)))
    yield Section("contributions", "All contributions", list(_contributions(case)), folded=True)


def explanation_sections(case: Case) -> Iterator[Section]:
    """Build the sections that explain a decision: reasons, recourse, comparable people."""
    yield Section("reasons", "Principal reasons", list(_reason_blocks(case)))
    yield Section("recourse", "What would have changed the decision", list(_recourse_blocks(case)))
    yield Section("comparables", "Comparable people", list(_comparable_blocks(case)))


def _reason_blocks(case: Case) -> Iterator[Block]:
    reasons = case["reasons"]
    if reasons["refusal"]:
        yield f"**No reasons**: {reasons['refusal']}"
        return
    if case["decision"]["favourable"]:
        yield "The decision is the favourable one: reasons are of adverse decisions."
    elif not reasons["principal"]:
        yield "No input moved the decision noticeably against the favourable one."
    else:
        rows: list[list[Any]] = []
        for place, reason in enumerate(reasons["principal"], 1):
            rows.append(
                [f"{place}. {reason['text']}", reason["value"], _signed(reason["contribution"])]
            )
        columns = ["Reason", "This person’s value", "Change of the log-odds"]
        sensitive = [reason["column"] for reason in reasons["principal"] if reason["is_sensitive"]]
        for name in sensitive:
            yield (
                f"**{name} is a sensitive column.** That it is a principal reason calls for a "
                "human review before this decision is sent."
            )
        yield Table("Inputs that weighed most against the favourable outcome", columns, rows)
    yield f"Computed as {reasons['method']}; the one-hot columns of a category are summed."


def _signed(number: float) -> str:
    """A number with two digits, and its sign; 0 has none."""
    if number == 0:
        return "0"
    text = f"{number:+.2f}" if abs(number) >= 0.095 else f"{number:+.2g}"
    return text.replace("-", "\u2212")


def _recourse_blocks(case: Case) -> Iterator[Block]:
    recourse = case["recourse"]
    if recourse["status"] in ("refused", "not needed"):
        yield f"**None is given**: {str(recourse['reason']).removesuffix('.')}."
        return
    if recourse["changes"]:
        rows: list[list[Any]] = []
        for change in recourse["changes"]:
            unit = f" {change['unit']}" if change["unit"] else ""
            rows.append(
                [change["name"], f"{change['from_shown']}{unit}", f"{change['to_shown']}{unit}"]
            )
        caption = "Smallest change" if recourse["is_smallest"] else "Smallest change found"
        yield Table(
            caption,
            ["Input", "This person’s value", "Value needed"],
            rows,
        )
        yield "The same version of the model decides favourably about the changed values."
    yield _recourse_headline(recourse)
    if recourse["status"] == "found" and not recourse["is_smallest"]:
        yield _not_smallest(recourse)
    elif recourse["is_smallest"] and recourse["changes"]:
        yield "It is proved that no cheaper change leads to the favourable decision."
    elif recourse["is_smallest"]:
        yield "It is proved: all combinations of values were excluded."
    names = ", ".join(recourse["changeable"])
    yield (
        f"Method: {recourse['method']}. The contract says that a person can change {names}. The "
        "cost of a change is in standard deviations, 1 for another category, and 0.1 for each "
        "changed column. It says what this version of the model would have decided, and is no "
        "promise of a later decision."
    )


def _not_smallest(recourse: Mapping[str, Any]) -> str:
    text = "It is not proved that there is no smaller one"
    if recourse["least_cost"] > 0:
        text += f": each costs at least {recourse['least_cost']:.2f}, and this one "
        text += f"{recourse['cost']:.2f}"
    return f"{text}."


def _comparable_blocks(case: Case) -> Iterator[Block]:
    if not case["comparables"]:
        yield "Comparable people were not looked for."
    for item in case["comparables"]:
        yield f"**Compared by {item['compared_by']}.** {_comparable_headline(item)}"
        if item["differs"]:
            rows: list[list[Any]] = []
            for entry in item["differs"]:
                rows.append([entry["name"], entry["own"], entry["other"]])
            columns = ["Input", "This person", "The comparable person"]
            yield Table("A comparable person who is decided otherwise", columns, rows)
        yield f"{'; '.join(_comparable_facts(item))}."


def _comparable_facts(item: Mapping[str, Any]) -> list[str]:
    """How it is known, and up to which fair distance."""
    facts = []
    if item["method"]:
        facts.append(f"How: {item['method']}")
    if item["radius"] > 0:
        facts.append(f"fair distance up to {item['radius']:g}")
        if item["proved_radius"] is not None:
            facts.append(f"the decision provably stays up to {item['proved_radius']:.3g}")
    if item["reason"]:
        facts.append(f"Why: {str(item['reason']).removesuffix('.')}")
    return facts


def _alternative_blocks(case: Case) -> Iterator[Block]:
    """What a search for alternatives to the version recorded about the people of its table."""
    search = case.get("alternatives")
    if not search:
        return
    models = search.get("judged_models", search["models"])
    best = "none is better there"
    if search["alternative_gap"] > 0:
        best = f"the best is better there by {search['alternative_gap']:.3g}"
        # records of older versions lack it
        if search.get("by_group"):
            best += ", with thresholds by group"
            gap = abs(search["best_with_one_rule"] - search["value"])
            best += f" (without them by {gap:.3g})"
    yield (
        f"On {search['when'][:10]} a search for alternatives to this version with a better "
        f"{search['metric']} judged {formats.plural(models, 'model')}: {best}."
    )
    counts = search.get("multiplicity")
    if counts:
        if search.get("no_worse"):
            kept = [
                str(text).replace(" by ", " no worse by more than ") for text in search["no_worse"]
            ]
            yield (
                f"As good means {formats.join(kept)}, on the training rows. Such a model may have "
                "more disparity."
            )
        yield (
            f"{formats.sentence(as_good_words(counts))}; {otherwise_words(counts)}. The table that "
            f"it searched has {formats.plural(counts['people'], 'person', 'people')}."
        )
        rows: list[list[Any]] = []
        # records of older versions have no groups
        for attribute, groups in counts.get("by_group", {}).items():
            for name, group in groups.items():
                if group is not None:
                    share = formats.percent(group["ambiguity"])
                    rows.append([f"{attribute}: {name}", f"{group['people']:,.0f}", share])
        if rows:
            columns = ["Group", "People", "Decided otherwise by some"]
            yield Table("Equally good models by group", columns, rows)
    yield from _about_this_person(search, case["decision"])


def _about_this_person(search: Mapping[str, Any], decision: Mapping[str, Any]) -> Iterator[str]:
    """How many of the equally good models that were kept decide otherwise about this person."""
    person = search.get("person")
    counts = search.get("multiplicity")
    if person is None and not counts:
        return
    # cases of older versions asked none
    reason = "its search kept no such model"
    if person is not None:
        reason = person.get("reason", "")
    if person is None or not person["models"]:
        yield f"How equally good models decide about this person is not known: {reason}."
        return
    other = "otherwise"
    if not decision["favourable"]:
        other = f"otherwise, for “{decision['favourable_outcome']}”"
    yield f"**{_decided_words(person, other)}**"
    yield _drawn_words(person)


def _decided_words(person: Mapping[str, Any], other: str) -> str:
    """How many of the models that were asked decide otherwise; `other` says for which outcome."""
    asked = person["models"]
    otherwise = person["otherwise"]
    if asked == 1:
        word = other if otherwise else "the same"
        return f"About this person the one equally good model that was asked decides {word}."
    if not otherwise:
        return f"About this person all {asked} equally good models that were asked decide the same."
    decide = "decides" if otherwise == 1 else "decide"
    return f"About this person {otherwise} of {asked} equally good models {decide} {other}."


def _drawn_words(person: Mapping[str, Any]) -> str:
    """Of which settings the models are, and what they show about all of them."""
    drawn = person["drawn"]
    are_all = person["of"] == drawn
    if are_all:
        text = (
            f"The search found {formats.plural(drawn, 'different setting')} as good as the model."
        )
    else:
        text = (
            f"The search drew {formats.plural(drawn, 'setting')} at random from all different ones "
            "that are as good as the model."
        )
    missing = drawn - person["models"]
    if missing:
        text += (
            f" Asked were models of {person['models']:,} of them, trained on all training rows. "
            f"What the other {missing:,} decide is not known: there was no time to train them, or "
            "they cannot decide about this row."
        )
    else:
        text += " Their models were trained on all training rows and asked."
    # to what is shown, outward, so that the interval has its confidence
    low = formats.percent(math.floor(1000 * person["low"] + ROUNDING) / 1000)
    high = formats.percent(math.ceil(1000 * person["high"] - ROUNDING) / 1000)
    if not are_all:
        return (
            f"{text} So between {low} and {high} of all settings that are as good decide "
            f"otherwise, with a confidence of {formats.percent(person['level'])}."
        )
    if missing:
        text += f" So between {low} and {high} of these settings decide otherwise."
    return text


def _input_blocks(case: Case) -> Iterator[Block]:
    rows: list[list[Any]] = []
    for entry in case["inputs"]["used"]:
        unit = f" {entry['unit']}" if entry["unit"] else ""
        rows.append([Cell(entry["name"], below=(entry["description"],)), f"{entry['shown']}{unit}"])
    yield Table("Inputs that the model used", ["Input", "Value"], rows)
    unused = [f"{entry['column']} ({entry['role']})" for entry in case["inputs"]["not_used"]]
    if unused:
        yield f"Columns of the contract that the model did not use: {', '.join(unused)}."


def _review_blocks(case: Case) -> Iterator[Block]:
    if not case["reviews"]:
        yield "No person has reviewed this decision yet: `evenhand case review` records it."
    rows: list[list[Any]] = []
    for review in case["reviews"]:
        rows.append(
            [
                formats.moment(review["when"]),
                review["who"],
                OUTCOMES[review["outcome"]],
                review["reason"],
            ]
        )
    if rows:
        yield Table("Reviews", ["When", "By", "Outcome", "Reason"], rows)
    rows = []
    for replay in case["replays"]:
        corrected = ", ".join(f"{name} = {text}" for name, text in replay["corrected"].items())
        when = formats.moment(replay["when"])
        rows.append([when, replay["who"], corrected or "nothing", replay["result"]])
    if rows:
        yield Table("Replays on the same version", ["When", "By", "Corrected", "Result"], rows)


def _contributions(case: Case) -> Iterator[Block]:
    by_column = case["reasons"]["contributions"]
    rows: list[list[Any]] = []
    for name in sorted(by_column, key=lambda key: by_column[key]):
        rows.append([name, _signed(by_column[name])])
    if rows:
        yield Table(
            "Contribution of each input to the log-odds of the favourable outcome",
            ["Input", "Contribution"],
            rows,
        )
