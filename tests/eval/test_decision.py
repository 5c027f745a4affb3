"""GO and NO-GO on rankings made by hand."""

from dataclasses import replace

from eval.decision import Condition, Decision, Evidence, ExactFigures, Judgement, ParaphraseFigures, decide
from eval.evaluation import Conditions, judge
from eval.inference import Interval
from eval.scoring import score_set
from tests.eval.parts import hit, made_rankings, made_set

NOTHING_STALE: frozenset[str] = frozenset()
ALL, HALF = [True] * 40, [True, False] * 20


def judged(
    lexical: list[bool], hybrid: list[bool], exact_lexical: list[bool], exact_hybrid: list[bool]
) -> Judgement:
    """The decision on a paraphrase and an exact set whose passages are found or not as listed."""
    sets = []
    for name, one, other in (
        ("paraphrase", lexical, hybrid),
        ("exact", exact_lexical, exact_hybrid),
    ):
        dataset = made_set(name, len(one))
        sets.append(score_set(dataset, made_rankings(dataset, one, other), NOTHING_STALE, seed=1))
    return judge(sets, Conditions())


def failed(judgement: Judgement) -> set[Condition]:
    """The conditions that do not hold."""
    return {check.condition for check in judgement.checks if not check.holds}


def test_go() -> None:
    """E2: hybrid over the bar, better than lexical beyond chance and no loss on exact tokens is GO."""
    judgement = judged(HALF, ALL, ALL, ALL)
    assert judgement.decision is Decision.GO
    assert failed(judgement) == set()


def test_no_go_for_the_bar() -> None:
    """E2: a sure gain that ends below 0.80 is NO-GO, for the bar alone."""
    judgement = judged([False] * 40, [True] * 31 + [False] * 9, ALL, ALL)
    assert judgement.decision is Decision.NO_GO
    assert failed(judgement) == {Condition.BAR}


def test_the_bar_itself_is_enough() -> None:
    """E2: recall@8 of exactly 0.80 meets the bar."""
    assert failed(judged([False] * 40, [True] * 32 + [False] * 8, ALL, ALL)) == set()


def test_no_go_for_the_interval() -> None:
    """E2: over the bar with a gain whose interval holds 0 is NO-GO, for the interval alone."""
    lexical = [True] * 38 + [False] * 2
    hybrid = [False] + [True] * 39
    judgement = judged(lexical, hybrid, ALL, ALL)
    assert judgement.decision is Decision.NO_GO
    assert failed(judgement) == {Condition.BETTER_THAN_LEXICAL}


def test_no_go_without_any_difference() -> None:
    """E2: hybrid that equals lexical is NO-GO: an interval from 0 to 0 excludes nothing."""
    assert failed(judged(ALL, ALL, ALL, ALL)) == {Condition.BETTER_THAN_LEXICAL}


def test_no_go_for_exact_tokens() -> None:
    """E2: one exact-token query lost is NO-GO, for that alone."""
    judgement = judged(HALF, ALL, ALL, [True] * 39 + [False])
    assert judgement.decision is Decision.NO_GO
    assert failed(judgement) == {Condition.EXACT_TOKENS}


def test_no_go_for_a_misleading_look_alike() -> None:
    """E2: a look-alike that hybrid puts above the right passage, and lexical does not, is a loss."""
    paraphrase = made_set("paraphrase", 40)
    exact = made_set("exact", 1, {"q0": frozenset({"look-alike"})})
    rankings = made_rankings(exact, [True], [True])
    ranked = replace(rankings.queries["q0"], hybrid=(hit("look-alike"), hit("right-0")))
    rankings = replace(rankings, queries={"q0": ranked})
    sets = [
        score_set(paraphrase, made_rankings(paraphrase, HALF, ALL), NOTHING_STALE, seed=1),
        score_set(exact, rankings, NOTHING_STALE, seed=1),
    ]
    assert failed(judge(sets, Conditions())) == {Condition.EXACT_TOKENS}


def test_no_go_for_one_stale_passage() -> None:
    """E8: one passage of a stale item anywhere in a ranking is NO-GO."""
    paraphrase, exact = made_set("paraphrase", 40), made_set("exact", 40)
    sets = [
        score_set(paraphrase, made_rankings(paraphrase, HALF, ALL), frozenset({"right-7"}), seed=1),
        score_set(exact, made_rankings(exact, ALL, ALL), NOTHING_STALE, seed=1),
    ]
    judgement = judge(sets, Conditions())
    assert judgement.decision is Decision.NO_GO
    assert failed(judgement) == {Condition.STALE}


def test_what_was_not_measured_is_no_go() -> None:
    """E2: without the sets that decide there is no GO, and the checks say what is missing."""
    judgement = decide(Evidence(None, None, 0))
    assert judgement.decision is Decision.NO_GO
    assert [check.figures for check in judgement.checks[:3]] == ["not measured"] * 3


def test_every_condition_counts() -> None:
    """E2: from GO, each single fault alone leads to NO-GO."""
    good = Evidence(ParaphraseFigures(0.9, Interval(0.1, 0.05, 0.15)), ExactFigures(0.9, 0.9, 0, 0), 0)
    assert decide(good).decision is Decision.GO
    for worse in (
        replace(good, paraphrase=ParaphraseFigures(0.79, Interval(0.1, 0.05, 0.15))),
        replace(good, paraphrase=ParaphraseFigures(0.9, Interval(0.1, 0.0, 0.2))),
        replace(good, exact=ExactFigures(0.9, 0.89, 0, 0)),
        replace(good, exact=ExactFigures(0.9, 0.95, 0, 1)),
        replace(good, stale_hits=1),
    ):
        assert decide(worse).decision is Decision.NO_GO
