"""Tables that are generated: synthetic people whose unfairness is known because it was put
there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

CLUBS = ("none", "chess", "choir", "football", "rowing")
# What a biography may say, by field: of the field's occupations alike, and of each, with its share
# of women.
FIELDS: dict[str, tuple[str, dict[str, tuple[float, str]]]] = {
    "medicine": (
        "patients, hospital wards, night shifts, medical training",
        {
            "nurse": (0.75, "bedside care, patient education, vaccinations"),
            "physician": (0.5, "internal medicine, family practice, diagnoses"),
            "surgeon": (0.25, "operations, transplants, joint replacement"),
        },
    ),
    "health": (
        "healthy living, treatment plans, pain relief, a private practice",
        {
            "chiropractor": (0.25, "spinal care, back injuries, sports injuries"),
            "dentist": (0.35, "teeth, dental implants, oral health"),
            "dietitian": (0.75, "nutrition, meal plans, eating habits"),
        },
    ),
    "mind": (
        "young people, learning, lectures, research on behaviour",
        {
            "professor": (0.4, "academic journals, doctoral students, university seminars"),
            "psychologist": (0.65, "therapy, anxiety, counselling"),
            "teacher": (0.7, "classrooms, homework, primary school"),
        },
    ),
    "office": (
        "clients, contracts, the firm, business disputes",
        {
            "accountant": (0.35, "tax returns, audits, bookkeeping"),
            "attorney": (0.35, "trials, appeals, litigation"),
            "paralegal": (0.75, "case files, legal research, court filings"),
            "software_engineer": (0.25, "programming, databases, open source"),
        },
    ),
    "pictures": (
        "exhibitions, light and colour, a studio, visual stories",
        {
            "architect": (0.25, "buildings, urban planning, construction"),
            "filmmaker": (0.3, "documentaries, screenplays, film festivals"),
            "interior_designer": (0.75, "furniture, living rooms, home decoration"),
            "painter": (0.5, "oil paintings, canvases, portraits in oil"),
            "photographer": (0.4, "cameras, weddings, portrait photography"),
        },
    ),
    "stage": (
        "concerts, fans, touring, late shows",
        {
            "comedian": (0.25, "jokes, stand-up, comedy clubs"),
            "composer": (0.3, "symphonies, string quartets, film scores"),
            "dj": (0.25, "turntables, house music, club nights"),
            "model": (0.75, "runways, fashion week, magazine covers"),
            "rapper": (0.25, "rhymes, mixtapes, hip hop"),
        },
    ),
    "word": (
        "stories, readers, faith and doubt, public readings",
        {
            "journalist": (0.55, "newspapers, interviews, breaking news"),
            "pastor": (0.25, "sermons, the congregation, ministry"),
            "poet": (0.6, "poems, verse, poetry prizes"),
        },
    ),
    "body": (
        "strength, workouts, breathing, group classes",
        {
            "personal_trainer": (0.4, "weight training, fitness goals, gym memberships"),
            "yoga_teacher": (0.75, "yoga, meditation, mindfulness"),
        },
    ),
}


def _phrases(text: str) -> list[str]:
    """Phrases that are separated by commas."""
    return text.split(", ")


def _occupations() -> dict[str, tuple[str, float, str]]:
    """Field, share of women and phrases of each occupation."""
    occupations = {}
    for field, (_, members) in FIELDS.items():
        for name, (share, phrases) in members.items():
            occupations[name] = (field, share, phrases)
    return occupations


OCCUPATIONS = _occupations()
# Share of the phrases that are of the occupation; the others are of its field.
OWN_PHRASES = 0.4
WORDS = {"F": ("Ms", "She", "her", "her", "mother"), "M": ("Mr", "He", "his", "him", "father")}
NAMES = _phrases("Adler, Brandt, Costa, Dahl, Eriksen, Farkas, Garcia, Hansen, Ito, Jansen")
CITIES = _phrases("Berlin, Boston, Lagos, Lima, Lyon, Madrid, Osaka, Oslo, Quito, Toronto")


def make_loans(n: int = 100_000, *, seed: int = 0) -> pd.DataFrame:
    r"""Loan applications whose features range from fair to unfair (DADI, appendix D).

    A group :math:`b \in \{0, 1\}` with equal shares; :math:`X_1..X_4 \sim N(0, 1)`; :math:`X_5..X_8
    \sim N(b - 1/2, 1)`; :math:`X_9` uniform on {0, 1, 2}; :math:`X_{10} \sim N(\pm X_9 / 2, 1)`
    with the sign of the group. The label follows :math:`P(Y = 1) = \sigma(\beta^\top X / 10)` with
    :math:`\beta` alternating 1 and -1. :math:`X_4` and :math:`X_8` influence the label but are not
    observed.

    Parameters
    ----------
    n : int, default 100,000
        Number of people, at least 1.
    seed : int, default 0

    Returns
    -------
    DataFrame, n rows
        ``X1, X2, X3, X5, X6, X7, X10`` (float), ``X9`` (str), ``group`` (str, a or b) and
        ``repaid`` (int).

    Raises
    ------
    ValueError
        If n is below 1.

    References
    ----------
    Bakker et al., "DADI: Dynamic Discovery of Fair Information with Adversarial Reinforcement
    Learning", appendix D.
    """
    import numpy as np
    import pandas as pd

    _check_rows(n)
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n)
    sign = 2 * group - 1
    features = rng.standard_normal((n, 10))
    features[:, 4:8] += sign[:, None] / 2
    category = rng.integers(0, 3, n)
    features[:, 8] = category
    features[:, 9] += sign * category / 2
    beta = np.where(np.arange(10) % 2 == 0, 1.0, -1.0)
    repaid = rng.random(n) < 1.0 / (1.0 + np.exp(-(features @ beta) / 10.0))
    observed = {f"X{j}": features[:, j - 1] for j in (1, 2, 3, 5, 6, 7)}
    return pd.DataFrame(
        observed
        | {
            "X9": category.astype(str),
            "X10": features[:, 9],
            "group": np.where(group == 1, "b", "a"),
            "repaid": repaid.astype(np.int64),
        }
    )


def make_hiring(n: int = 8_000, *, seed: int = 0) -> pd.DataFrame:
    r"""Past hiring decisions that depended on the gender of equally skilled applicants.

    Women and men have equal shares and the same distribution of skill :math:`s \sim N(0, 1)`, which
    is not observed, of test scores :math:`N(s, 0.6^2)`, interview scores :math:`N(s, 0.8^2)` and
    years of experience :math:`e \sim \Gamma(4, 2)`. 40 % of women are in a choir and 10 % play
    football, of men the reverse; the other clubs have equal shares. 45 % of women and 15 % of men
    had a career break, of exponential length :math:`m` with mean 10 months. Past recruiters hired
    with

    .. math:: P(\text{hired}) = \sigma(0.6 + 1.2 s + 0.15 (e - 8) - 0.02 m
        - 1.2 \cdot [\text{woman}]).

    The club has no effect of its own, but it predicts the gender where that is left out.

    Parameters
    ----------
    n : int, default 8,000
        Number of people, at least 1.
    seed : int, default 0

    Returns
    -------
    DataFrame, n rows
        ``gender`` (man or woman), ``club`` (str), ``test``, ``interview``, ``experience`` (years),
        ``break_months`` (float) and ``hired`` (int).

    Raises
    ------
    ValueError
        If n is below 1.

    Examples
    --------
    >>> frame = make_hiring(100, seed=0)
    >>> len(frame)
    100
    >>> sorted(frame.columns)[:3]
    ['break_months', 'club', 'experience']
    """
    import numpy as np
    import pandas as pd

    _check_rows(n)
    rng = np.random.default_rng(seed)
    woman = rng.integers(0, 2, n)
    shares = np.where(woman[:, None] == 1, [0.2, 0.1, 0.4, 0.1, 0.2], [0.2, 0.1, 0.1, 0.4, 0.2])
    club = (rng.random(n)[:, None] > shares.cumsum(axis=1)[:, :-1]).sum(axis=1)
    skill = rng.standard_normal(n)
    test = skill + 0.6 * rng.standard_normal(n)
    interview = skill + 0.8 * rng.standard_normal(n)
    experience = rng.gamma(4.0, 2.0, n)
    months = np.where(rng.random(n) < 0.15 + 0.3 * woman, rng.exponential(10.0, n), 0.0)
    score = 0.6 + 1.2 * skill + 0.15 * (experience - 8.0) - 0.02 * months - 1.2 * woman
    hired = rng.random(n) < 1.0 / (1.0 + np.exp(-score))
    return pd.DataFrame(
        {
            "gender": np.where(woman == 1, "woman", "man"),
            "club": np.array(CLUBS)[club],
            "test": test.round(2),
            "interview": interview.round(2),
            "experience": experience.round(1),
            "break_months": months.round(),
            "hired": hired.astype(np.int64),
        }
    )


def make_bios(n: int = 2_000, *, seed: int = 0) -> pd.DataFrame:
    """Biographies of 28 occupations whose pronouns reveal the gender, and so the likelier
    occupation.

    They replace those of De-Arteaga et al.: occupations have equal shares, and shares of women from
    25 to 75 %. A biography has three phrases, each of the occupation with probability .4, else of
    its field, which other occupations share: where none is of the occupation, the gender says more
    than the phrases.

    Parameters
    ----------
    n : int, default 2,000
        Number of people, at least 1.
    seed : int, default 0

    Returns
    -------
    DataFrame, n rows
        ``bio``, ``gender`` (F or M) and ``title``, the occupation.

    Raises
    ------
    ValueError
        If n is below 1.

    References
    ----------
    M. De-Arteaga et al., "Bias in Bios: A Case Study of Semantic Representation Bias in a
    High-Stakes Setting", FAT* 2019.
    """
    import numpy as np
    import pandas as pd

    _check_rows(n)
    rng = np.random.default_rng(seed)
    titles = np.array(sorted(OCCUPATIONS))[rng.permutation(n) % len(OCCUPATIONS)]
    people = []
    for title, size in zip(*np.unique(titles, return_counts=True), strict=True):
        _, share, _ = OCCUPATIONS[str(title)]
        for number in range(size):
            gender = "F" if number < round(share * size) else "M"
            people.append((_biography(str(title), gender, rng), gender, str(title)))
    frame = pd.DataFrame(people, columns=["bio", "gender", "title"])
    return frame.take(rng.permutation(n)).reset_index(drop=True)


def _biography(title: str, gender: str, rng: np.random.Generator) -> str:
    """Sentences about one person of an occupation."""
    field, _, occupation_phrases = OCCUPATIONS[title]
    field_phrases, _ = FIELDS[field]
    phrases = []
    for _ in range(3):
        is_own = rng.random() < OWN_PHRASES
        phrases.append(rng.choice(_phrases(occupation_phrases if is_own else field_phrases)))
    ms, she, her, object_, mother = WORDS[gender]
    first = f"{ms} {rng.choice(NAMES)} lives in {rng.choice(CITIES)}."
    second = f"{she} knows much about {phrases[0]}, and {her} days are full of {phrases[1]}."
    third = f"People ask {object_} about {phrases[2]}."
    children = rng.choice(["one", "two", "three"])
    return f"{first} {second} {third} {she} is a {mother} of {children}."


def _check_rows(n: int) -> None:
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}.")


@dataclass(frozen=True)
class GeneratedTable:
    """A table that needs no data.

    Parameters
    ----------
    summary : str
        What it is, in a line.
    rows : int
        Number of rows by default.
    make : callable
        Its generator, of the number of rows and ``seed``.
    """

    summary: str
    rows: int
    make: Callable[..., pd.DataFrame]


GENERATED = {
    "loans": GeneratedTable("synthetic loan applications, generated", 20_000, make_loans),
    "hiring": GeneratedTable(
        "synthetic hiring decisions that favour one gender, generated", 8_000, make_hiring
    ),
    "bios-generated": GeneratedTable(
        "synthetic biographies of 28 occupations, in place of bios, generated", 2_000, make_bios
    ),
}
"""By name in a job's ``table``."""
