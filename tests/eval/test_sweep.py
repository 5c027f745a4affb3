"""Sweeps: nothing is scored by a setting that it helped to choose."""

from eval.inference import bootstrap_mean
from eval.outputs import KeptSet, kept_sets, plain
from eval.rankings import QueryRankings, QueryTerms
from eval.sweep import SetScores, choose, fold_of, grid, grid_rows, held_out, score_grid
from service.core.fusion import (
    FusionMethod,
    FusionSettings,
    Scored,
    combine_convex,
    combine_min_max,
    weighted_by_coverage,
)
from service.model import ItemId
from tests.eval.parts import hit, made_rankings, made_set

FOLDS = 4


def scores(name: str, columns: dict[str, dict[str, float]], single: dict[str, float]) -> SetScores:
    """A set whose better single arm is the lexical one."""
    return SetScores(name, single, single, dict.fromkeys(single, 0.0), columns)


def test_folds_are_a_partition() -> None:
    """E9: every query is in one fold, the same with the same seed, and every fold is used."""
    queries = [f"q{n}" for n in range(200)]
    folds = [fold_of(query, 1, FOLDS) for query in queries]
    assert set(folds) == set(range(FOLDS))
    assert folds == [fold_of(query, 1, FOLDS) for query in queries]
    assert folds != [fold_of(query, 2, FOLDS) for query in queries]


def test_a_fold_does_not_choose_its_own_setting() -> None:
    """E9: a setting that is perfect on one fold alone is never used on that fold."""
    queries = [f"q{n}" for n in range(80)]
    columns = {"steady": dict.fromkeys(queries, 0.6)}
    for fold in range(FOLDS):
        columns[f"only-{fold}"] = {q: 1.0 if fold_of(q, 1, FOLDS) == fold else 0.0 for q in queries}
    held = held_out([scores("set", columns, dict.fromkeys(queries, 0.5))], list(columns), "m", 1, FOLDS)
    assert list(held.chosen) == ["steady"] * FOLDS
    assert round(held.means["set"], 9) == 0.6
    assert round(held.by_set["set"].difference.estimate, 9) == 0.1


def test_a_setting_below_the_better_arm_is_not_chosen() -> None:
    """E9: the best mean is passed over when it falls on one set below the better arm by more than its interval."""
    queries = [f"q{n}" for n in range(40)]
    single = dict.fromkeys(queries, 0.5)
    bold = {"up": dict.fromkeys(queries, 1.0), "down": dict.fromkeys(queries, 0.3)}
    safe = {"up": dict.fromkeys(queries, 0.6), "down": dict.fromkeys(queries, 0.5)}
    sets = [scores(name, {"bold": bold[name], "safe": safe[name]}, single) for name in ("up", "down")]
    assert [row.label for row in grid_rows(sets, 1)] == ["bold", "safe"]
    assert choose(sets, ["bold", "safe"], 1) == "safe"
    assert choose(sets, ["bold"], 1) == "bold"


def test_every_method_is_swept() -> None:
    """E9: the grid has every method, no setting twice, and the settings of the service's default."""
    candidates = grid()
    labels = [candidate.label for candidate in candidates]
    assert len(set(labels)) == len(labels)
    assert {candidate.method for candidate in candidates} == set(FusionMethod)
    assert any(c.method is FusionMethod.RRF and c.settings == FusionSettings() for c in candidates)


def test_kept_rankings_are_enough() -> None:
    """E9: scores come from kept rankings alone; what both arms find at rank 2 every setting keeps."""
    dataset = made_set("set", 6)
    kept = kept_sets([dataset], [made_rankings(dataset, [True] * 6, [True] * 6)])
    (one,) = score_grid(kept, grid([FusionMethod.RRF]))
    assert one.lexical == one.vector == dict.fromkeys(dataset.qrels, 1.0)
    assert all(column == one.lexical for column in one.candidates.values())


def test_a_query_that_the_lexical_arm_does_not_cover() -> None:
    """E9: with the coverage at a tenth, eight lexical passages of no use no longer hide the vector's."""
    noise = tuple(hit(f"noise-{n}", 9.0 - n) for n in range(8))
    vector = tuple(hit(name, 0.5) for name in ("v1", "v2", "v3", "right"))
    one = QueryRankings(QueryTerms(10.0, 60.0), noise, vector, ())
    kept = KeptSet("set", "digest", plain({"q": {"right": 1}}), {"q": one})
    (found,) = score_grid([kept], grid([FusionMethod.RRF, FusionMethod.COVERAGE_RRF]))
    assert found.candidates["rrf k=60 3:1"]["q"] == 0.0
    assert found.candidates["coverage-rrf k=60 1:1 ^2"]["q"] == 1.0


def test_coverage_bends_the_lexical_weight_alone() -> None:
    """E9: full coverage keeps the settings, none leaves the vector arm alone, and nothing leaves 0 to 1."""
    settings = FusionSettings(10, 2.0, 1.0)
    assert weighted_by_coverage(settings, 1.0, 2.0) == settings
    assert weighted_by_coverage(settings, 0.5, 2.0) == FusionSettings(10, 0.5, 1.0)
    assert weighted_by_coverage(settings, 0.0) == FusionSettings(10, 0.0, 1.0)
    assert weighted_by_coverage(settings, 1.5) == settings


def test_convex_by_hand() -> None:
    """E9: half of 12/24 and half of .8 make .65; what no cosine is known of counts with the lowest one."""
    a, b, c = (ItemId(name) for name in "abc")
    lexical = [Scored(a, 0, 12.0), Scored(c, 0, 6.0)]
    vector = [Scored(a, 0, 0.8), Scored(b, 0, 0.6)]
    combined = combine_convex(lexical, vector, FusionSettings(60, 0.5, 0.5), ceiling=24.0)
    assert [(hit.item_id, round(hit.score, 9)) for hit in combined] == [("a", 0.65), ("c", 0.425), ("b", 0.3)]


def test_min_max_by_hand() -> None:
    """E9: each list is stretched to 0 … 1, so its last passage adds nothing; a list of one counts 1."""
    a, b = ItemId("a"), ItemId("b")
    combined = combine_min_max(
        [Scored(a, 0, 9.0), Scored(b, 0, 1.0)], [Scored(b, 0, 0.2)], FusionSettings(60, 0.4, 0.6)
    )
    assert [(hit.item_id, hit.score) for hit in combined] == [("b", 0.6), ("a", 0.4)]


def test_cheap_intervals_decide_alike() -> None:
    """E11: choosing resamples from the seed, so the same scores choose the same."""
    assert bootstrap_mean([0.1, -0.2, 0.3], 1, 500) == bootstrap_mean([0.1, -0.2, 0.3], 1, 500)
