"""`decoevo_dspy.rules.statistics` against published examples, against SciPy's own tests, and by property."""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from decoevo_dspy.rules import statistics as s

# Student (1908), hours of sleep gained under two drugs by the same ten patients (R: `sleep`).
DRUG_1 = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
DRUG_2 = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]

scores = st.floats(-100, 100)
columns = st.lists(st.tuples(scores, scores), min_size=2, max_size=12)
labels = st.sampled_from(["met", "unmet", "partly"])
label_pairs = st.lists(st.tuples(labels, labels), max_size=15)


def split(pairs: Sequence[tuple[Any, Any]]) -> tuple[list[Any], list[Any]]:
    """A list of pairs as two columns."""
    return [x for x, _ in pairs], [y for _, y in pairs]


def rng(seed: int = 0) -> np.random.Generator:
    """A fresh generator, so that two calls draw the same resamples."""
    return np.random.default_rng(seed)


def the(value: float | None) -> float:
    """The value of a figure that must be defined."""
    assert value is not None
    return value


class TestMeans:
    """Averages inside a run, and mean ± SD across runs."""

    def test_average_within_run_comes_first(self):
        """Each run is averaged over its benchmarks by position."""
        assert s.average_within_run({"x": [1.0, 2.0, 3.0], "y": [3.0, 6.0, 3.0]}) == [2.0, 4.0, 3.0]

    @pytest.mark.parametrize("bad", [{}, {"x": [1.0], "y": [1.0, 2.0]}])
    def test_average_within_run_needs_matched_runs(self, bad: dict[str, list[float]]):
        """A failed run on one benchmark must not shift the others against each other."""
        with pytest.raises(ValueError, match="same number of runs"):
            s.average_within_run(bad)

    def test_average_within_run_names_the_benchmark(self):
        """The message says which benchmark and which run is ungraded."""
        with pytest.raises(ValueError, match=r"healthbench\[1\] is None"):
            s.average_within_run({"healthbench": [1.0, None], "x": [1.0, 2.0]})  # pyright: ignore[reportArgumentType]

    def test_sample_sd(self):
        """The SD divides by n - 1: [2,4,4,4,5,5,7,9] has population SD 2 (Wikipedia), sample SD sqrt(32 / 7)."""
        result = s.mean_and_sd([2, 4, 4, 4, 5, 5, 7, 9])
        assert (result.mean, result.n, result.reason) == (5.0, 8, None)
        assert result.sd == pytest.approx(math.sqrt(32 / 7))

    def test_sd_needs_two_values(self):
        """One run has a mean and no SD, none has neither; both say why."""
        one, none = s.mean_and_sd([7.0]), s.mean_and_sd([])
        assert (one.mean, one.sd, one.n) == (7.0, None, 1)
        assert one.reason
        assert (none.mean, none.sd, none.n) == (None, None, 0)
        assert none.reason

    def test_equal_values_have_sd_zero(self):
        """Values that only rounding tells apart have no spread."""
        assert s.mean_and_sd([0.3 - 0.1, 0.4 - 0.2, 0.2]).sd == 0.0

    def test_standard_error(self):
        """SD / √n, as SciPy's ``sem``; undefined for one item."""
        deltas = [x - y for x, y in zip(DRUG_1, DRUG_2, strict=True)]
        result = s.standard_error_of_mean_difference(deltas)
        assert result.value == pytest.approx(stats.sem(deltas))
        assert s.standard_error_of_mean_difference([1.0]).value is None

    def test_relative_gain(self):
        """44 over 40 is a tenth; a base of 0, below 0 or next to 0 leaves the gain undefined, not infinite."""
        assert s.relative_gain(44, 40) == s.Estimate(value=0.1, n=2)
        assert s.relative_gain(30, 40).value == -0.25
        for base in (0.0, -5.0, 5e-324):
            result = s.relative_gain(1.0, base)
            assert result.value is None
            assert "relative to" in (result.reason or "")


class TestInputs:
    """Nothing ungraded, infinite or mistyped enters a figure."""

    @pytest.mark.parametrize("bad", [None, math.nan, math.inf, -math.inf, "5", 1e200, 10**400, 1j, [1.0]])
    def test_not_a_finite_number(self, bad: Any):
        """Every function refuses it and names the position."""
        good, spoilt = [1.0, 2.0, 3.0], [1.0, 2.0, bad]
        calls = [
            lambda: s.mean_and_sd(spoilt),
            lambda: s.standard_error_of_mean_difference(spoilt),
            lambda: s.average_within_run({"x": good, "y": spoilt}),
            lambda: s.paired_difference(good, spoilt),
            lambda: s.paired_difference(spoilt, good),
            lambda: s.bootstrap_paired_difference(spoilt, good, rng=rng()),
            lambda: s.paired_equivalence(spoilt, good, margin=1.0),
            lambda: s.sign_counts(good, spoilt),
        ]
        for call in calls:
            with pytest.raises(ValueError, match=r"\[2\] is"):
                call()

    @pytest.mark.parametrize("bad", [math.nan, math.inf, -0.1, 1.1])
    def test_not_a_p_value(self, bad: float):
        """Holm refuses what is not a probability."""
        with pytest.raises(ValueError, match="values"):
            s.holm([0.5, None, bad])

    @pytest.mark.parametrize("bad", [None, math.nan])
    def test_missing_labels(self, bad: Any):
        """A missing label is no class of its own."""
        good, spoilt = [True, False, True], [True, bad, True]
        for function in (s.cohen_kappa, s.balanced_accuracy, s.macro_f1):
            for columns in ((good, spoilt), (spoilt, good)):
                with pytest.raises(ValueError, match="item 1 lacks a label"):
                    function(*columns)
        with pytest.raises(ValueError, match="item 1 lacks a label"):
            s.fleiss_kappa([good, spoilt])

    def test_unequal_lengths(self):
        """Pairs by position need equal lengths."""
        for function in (s.paired_difference, s.sign_counts, s.cohen_kappa, s.balanced_accuracy, s.macro_f1):
            with pytest.raises(ValueError, match="3 against 2"):
                function([1.0, 2.0, 3.0], [1.0, 2.0])
        for ratings in ([["a", "b"], ["a"]], [["a"], ["b"]], [[], []]):
            with pytest.raises(ValueError, match="same number"):
                s.fleiss_kappa(ratings)

    @pytest.mark.parametrize("bad", [0.0, 1.0, 95.0, -0.5, math.nan])
    def test_confidence_is_a_share(self, bad: float):
        """95 is not 0.95, also where no interval comes out."""
        for pairs in ([1.0], [1.0, 2.0, 4.0]):
            with pytest.raises(ValueError, match="confidence"):
                s.paired_difference(pairs, pairs, confidence=bad)
            with pytest.raises(ValueError, match="confidence"):
                s.bootstrap_paired_difference(pairs, pairs, confidence=bad, rng=rng())

    @pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
    def test_margin_is_positive(self, bad: float):
        """An equivalence margin is above 0 and finite."""
        with pytest.raises(ValueError, match="margin"):
            s.paired_equivalence([1.0, 2.0], [1.0, 3.0], margin=bad)

    def test_numpy_and_fractions_are_numbers(self):
        """Whatever is a real number is taken as one, without a warning."""
        assert s.mean_and_sd([np.float32(1), np.int64(2), Fraction(3), True]).mean == 1.75  # pyright: ignore

    def test_results_explain_themselves(self):
        """A result cannot hold NaN, nor ``None`` without a reason, nor a reason without ``None``."""
        for value, reason in ((math.nan, None), (math.inf, "x"), (None, None), (1.0, "x"), (None, "")):
            with pytest.raises(ValueError, match="reason"):
                s.Estimate(value=value, n=1, reason=reason)
        assert s.Estimate(value=None, n=0, reason="no items").value is None


class TestPairedDifference:
    """The paired t-interval."""

    def test_student_sleep(self):
        """R: ``t.test(extra ~ group, sleep, paired = TRUE)`` prints t = -4.0621, df = 9, p = 0.002833."""
        result = s.paired_difference(DRUG_1, DRUG_2)
        assert result.mean == pytest.approx(-1.58)
        assert result.ci95 == pytest.approx((-2.4598858, -0.7001142), abs=1e-7)
        assert result.p == pytest.approx(0.002833, abs=1e-6)
        assert (result.n, result.reason, result.method) == (10, None, "t")

    def test_five_seeds_by_hand(self):
        """Differences 1..5: mean 3, SE sqrt(2.5 / 5), t(0.975, 4) = 2.776445 (any t table)."""
        result = s.paired_difference([11, 22, 33, 44, 55], [10, 20, 30, 40, 50])
        half = 2.776445 * math.sqrt(0.5)
        assert result.ci95 == pytest.approx((3 - half, 3 + half), abs=1e-6)

    @given(columns)
    def test_against_scipy(self, pairs: list[tuple[float, float]]):
        """The same figures as ``scipy.stats.ttest_rel`` wherever that is well conditioned."""
        a, b = split(pairs)
        assume(np.std(np.subtract(a, b)) > 1e-6)
        result, reference = s.paired_difference(a, b, confidence=0.8), stats.ttest_rel(a, b)
        assert result.p == pytest.approx(reference.pvalue, rel=1e-6)
        assert result.interval == pytest.approx(tuple(reference.confidence_interval(0.8)), rel=1e-6, abs=1e-9)

    def test_ci95_is_never_another_interval(self):
        """The 90 % interval cannot be read as the 95 % one."""
        with pytest.raises(ValueError, match="this interval has confidence"):
            _ = s.paired_difference(DRUG_1, DRUG_2, confidence=0.9).ci95

    def test_equal_differences(self):
        """Without spread the interval collapses to the mean and p is undefined, also when rounding fakes a spread."""
        for a, b in (([3.0, 4.0], [1.0, 2.0]), ([0.3, 0.4], [0.1, 0.2])):
            result = s.paired_difference(a, b)
            assert result.interval == (result.mean, result.mean)
            assert result.p is None
            assert result.reason == "all differences are equal"

    def test_no_difference_at_all(self):
        """All differences 0: nothing speaks against equality, p is 1; rounding does not spoil it."""
        for a, b in (([1.0, 2.0], [1.0, 2.0]), ([0.1 + 0.2, 1.0, 5.0], [0.3, 1.0, 5.0])):
            result = s.paired_difference(a, b)
            assert (result.mean, result.interval, result.p, result.reason) == (0.0, (0.0, 0.0), 1.0, None)

    def test_too_few_pairs(self):
        """One pair has a mean only, none has nothing; not even "p = 1" when that one pair is a tie."""
        for one in (s.paired_difference([2.0], [1.5]), s.paired_difference([2.0], [2.0])):
            assert (one.interval, one.p, one.n) == (None, None, 1)
            assert one.mean is not None
            assert one.reason == "one value alone has no spread"
        none = s.paired_difference([], [])
        assert (none.mean, none.interval, none.p, none.n) == (None, None, None, 0)
        assert none.reason

    @given(columns, st.randoms(use_true_random=False))
    def test_order_of_pairs_does_not_matter(self, pairs: list[tuple[float, float]], random: Any):
        """Exactly the same result, to the last bit."""
        before = s.paired_difference(*split(pairs))
        random.shuffle(pairs)
        assert s.paired_difference(*split(pairs)) == before

    @given(columns)
    def test_swapping_turns_the_sign(self, pairs: list[tuple[float, float]]):
        """``b - a`` mirrors ``a - b``; p stays."""
        a, b = split(pairs)
        one, other = s.paired_difference(a, b), s.paired_difference(b, a)
        assert other.mean == -the(one.mean)
        assert other.p == one.p
        assert other.interval is not None
        assert one.interval == (-other.interval[1], -other.interval[0])

    @given(columns)
    def test_interval_holds_the_mean_and_widens(self, pairs: list[tuple[float, float]]):
        """The mean lies inside; more confidence never narrows; p < 0.05 exactly when 0 lies outside."""
        a, b = split(pairs)
        narrow, wide = s.paired_difference(a, b, 0.95), s.paired_difference(a, b, 0.99)
        assert narrow.interval is not None
        assert wide.interval is not None
        assert wide.interval[0] <= narrow.interval[0] <= the(narrow.mean) <= narrow.interval[1] <= wide.interval[1]
        if narrow.p is not None and abs(narrow.p - 0.05) > 1e-9:
            assert (narrow.p < 0.05) == (not narrow.interval[0] <= 0 <= narrow.interval[1])
        assert narrow.p is None or 0 <= narrow.p <= 1

    @given(columns, st.floats(-50, 50), st.sampled_from([0.01, 0.5, 100.0]))
    def test_shift_and_scale(self, pairs: list[tuple[float, float]], shift: float, scale: float):
        """Adding a constant to ``a`` shifts mean and interval; a change of unit scales them and leaves p."""
        a, b = split(pairs)
        assume(np.std(np.subtract(a, b)) > 1e-6)
        plain = s.paired_difference(a, b)
        shifted = s.paired_difference([x + shift for x in a], b)
        scaled = s.paired_difference([x * scale for x in a], [x * scale for x in b])
        assert plain.interval is not None
        assert shifted.mean == pytest.approx(the(plain.mean) + shift, abs=1e-9)
        assert shifted.interval == pytest.approx([x + shift for x in plain.interval], rel=1e-6, abs=1e-6)
        assert scaled.interval == pytest.approx([x * scale for x in plain.interval], rel=1e-6, abs=1e-9)
        assert scaled.p == pytest.approx(plain.p, rel=1e-6)

    def test_coverage(self):
        """Of 4,000 intervals over five seeds with a true difference of 2, 95 % hold it (±4 standard errors)."""
        draws = rng(1).normal(2.0, 1.0, (4000, 5))
        intervals = [s.paired_difference(list(row), [0.0] * 5).ci95 for row in draws]
        covered = sum(low <= 2.0 <= high for low, high in filter(None, intervals)) / 4000
        assert covered == pytest.approx(0.95, abs=4 * math.sqrt(0.95 * 0.05 / 4000))


class TestBootstrap:
    """The bootstrap alternative."""

    def test_is_scipys_bca(self):
        """The interval of ``scipy.stats.bootstrap`` on the (sorted) differences with the same generator."""
        result = s.bootstrap_paired_difference(DRUG_1, DRUG_2, rng=rng(), resamples=2000)
        deltas = np.sort(np.subtract(DRUG_1, DRUG_2))
        reference = stats.bootstrap((deltas,), np.mean, n_resamples=2000, method="BCa", rng=rng())
        assert result.interval == pytest.approx(tuple(reference.confidence_interval))
        assert (result.method, result.confidence, result.n) == ("bca", 0.95, 10)
        assert result.mean == pytest.approx(-1.58)
        assert the(result.p) < 0.01

    def test_percentile_when_bca_is_undefined(self):
        """All (two) resampled means on one side of the observed one: bias correction infinite, percentiles instead."""
        results = [
            s.bootstrap_paired_difference(DRUG_1, DRUG_2, rng=rng(seed), confidence=0.5, resamples=2)
            for seed in range(20)
        ]
        assert {result.method for result in results} == {"bca", "percentile"}
        for result in results:
            assert result.interval is not None
            if result.method == "percentile":
                assert not result.interval[0] < -1.58 < result.interval[1]

    def test_needs_two_resamples(self):
        """Fewer resamples than two have no quantiles."""
        with pytest.raises(ValueError, match="at least 2"):
            s.bootstrap_paired_difference(DRUG_1, DRUG_2, rng=rng(), resamples=1)

    def test_degenerate_cases_are_those_of_the_t_interval(self):
        """No pairs, one pair, equal differences: the same answer, and nothing is drawn."""
        generator = rng()
        for a, b in (([], []), ([1.0], [0.0]), ([2.0, 3.0], [1.0, 2.0]), ([1.0, 2.0], [1.0, 2.0])):
            assert s.bootstrap_paired_difference(a, b, rng=generator) == s.paired_difference(a, b)
        assert generator.random() == rng().random()

    def test_p_is_uniform_without_a_difference(self):
        """Without a true difference about 5 % of p-values fall below 0.05 at n = 40 (bootstrap p runs a bit low)."""
        draws = rng(2).normal(0.0, 1.0, (400, 40))
        results = [s.bootstrap_paired_difference(list(d), [0.0] * 40, rng=rng(), resamples=400) for d in draws]
        assert 0.02 < np.mean([the(result.p) < 0.05 for result in results]) < 0.1

    @given(columns, st.integers(2, 60), st.randoms(use_true_random=False))
    def test_properties(self, pairs: list[tuple[float, float]], resamples: int, random: Any):
        """Finite, ordered, within the range of the differences; p in (0, 1]; order of pairs and unit do not matter."""
        a, b = split(pairs)
        result = s.bootstrap_paired_difference(a, b, rng=rng(), resamples=resamples)
        deltas = np.subtract(a, b)
        assert result.interval is not None
        low, high = result.interval
        assert min(deltas) - 1e-9 <= low <= high <= max(deltas) + 1e-9
        assert result.p is None or 0 < result.p <= 1
        halved = s.bootstrap_paired_difference([x / 2 for x in a], [y / 2 for y in b], rng=rng(), resamples=resamples)
        assert halved.interval == pytest.approx((low / 2, high / 2), abs=1e-300)
        random.shuffle(pairs)
        assert s.bootstrap_paired_difference(*split(pairs), rng=rng(), resamples=resamples) == result

    def test_tiny_and_huge_scores(self):
        """Units as small as 1e-110 or as large as 1e110 neither underflow nor overflow."""
        for unit in (1e-110, 1e110):
            a, b = [x * unit for x in DRUG_1], [x * unit for x in DRUG_2]
            result = s.bootstrap_paired_difference(a, b, rng=rng(), resamples=500)
            assert result.method == "bca"
            assert s.paired_difference(a, b).p == pytest.approx(0.002833, abs=1e-6)


class TestEquivalence:
    """Two one-sided tests: a vanished advantage is shown, not merely undetected."""

    def test_against_two_scipy_tests(self):
        """p is the larger of two one-sided ``ttest_1samp``; the interval is the 90 % one."""
        deltas = np.subtract(DRUG_1, DRUG_2)
        result = s.paired_equivalence(DRUG_1, DRUG_2, margin=2.5)
        below: Any = stats.ttest_1samp(deltas, 2.5, alternative="less")
        above: Any = stats.ttest_1samp(deltas, -2.5, alternative="greater")
        assert result.p == pytest.approx(max(below.pvalue, above.pvalue))
        assert result.ci90 == pytest.approx(tuple(stats.ttest_1samp(deltas, 0).confidence_interval(0.9)))
        assert result.equivalent is True

    def test_a_wide_interval_is_not_equivalence(self):
        """No significant difference over three noisy seeds, and no equivalence either."""
        a, b = [10.0, 0.0, 5.0], [0.0, 9.0, 6.0]
        assert the(s.paired_difference(a, b).p) > 0.5
        assert s.paired_equivalence(a, b, margin=2.0).equivalent is False

    def test_equal_differences_decide_by_the_mean(self):
        """No spread: strictly inside the margin or not, and p is undefined."""
        for shift, expected in ((0.0, True), (1.0, True), (2.0, False), (-2.0, False), (3.0, False)):
            result = s.paired_equivalence([5.0 + shift, 6.0 + shift], [5.0, 6.0], margin=2.0)
            assert (result.equivalent, result.p, result.mean) == (expected, None, shift)
            assert result.reason == "all differences are equal"

    def test_too_few_pairs_decide_nothing(self):
        """One pair is not evidence of equivalence."""
        for a in ([], [1.0]):
            result = s.paired_equivalence(a, a, margin=2.0)
            assert (result.equivalent, result.ci90, result.p) == (None, None, None)
            assert result.reason

    @given(columns, st.floats(0.1, 50))
    def test_interval_and_p_agree(self, pairs: list[tuple[float, float]], margin: float):
        """Inside the margin exactly when p < 0.05; a wider margin never takes it back; a and b may be swapped."""
        a, b = split(pairs)
        result = s.paired_equivalence(a, b, margin=margin)
        if result.p is not None and abs(result.p - 0.05) > 1e-9:
            assert result.equivalent == (result.p < 0.05)
        if result.equivalent:
            assert s.paired_equivalence(a, b, margin=2 * margin).equivalent
        assert s.paired_equivalence(b, a, margin=margin).equivalent == result.equivalent


class TestSignCounts:
    """Wins, ties, losses."""

    def test_ahead_on_all_fifteen(self):
        """15 wins of 15 (what the paper reports): p = 2 / 2**15."""
        result = s.sign_counts(list(range(1, 16)), [0] * 15)
        assert (result.wins, result.ties, result.losses, result.n) == (15, 0, 0, 15)
        assert result.p == pytest.approx(2 / 2**15)

    def test_ties(self):
        """Ties, also those within rounding, are counted and left out of the test; all ties give 1; no pairs nothing."""
        result = s.sign_counts([1.0, 0.1 + 0.2, 5.0], [0.0, 0.3, 6.0])
        assert (result.wins, result.ties, result.losses, result.p) == (1, 1, 1, 1.0)
        assert s.sign_counts([1.0, 2.0], [1.0, 2.0]).p == 1.0
        none = s.sign_counts([], [])
        assert (none.p, none.wins, none.n) == (None, 0, 0)
        assert none.reason

    @given(columns)
    def test_against_scipy(self, pairs: list[tuple[float, float]]):
        """The exact binomial test of wins against losses; the counts add up."""
        result = s.sign_counts(*split(pairs))
        assert result.wins + result.ties + result.losses == result.n == len(pairs)
        if decided := result.wins + result.losses:
            assert result.p == pytest.approx(stats.binomtest(result.wins, decided).pvalue)


class TestHolm:
    """Step-down adjustment."""

    @pytest.mark.parametrize(
        ("raw", "adjusted"),
        [
            ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),  # Wikipedia, "Holm–Bonferroni method", example
            ([0.01, 0.02, 0.03, 0.04], [0.04, 0.06, 0.06, 0.06]),  # by hand, as R's p.adjust(…, "holm")
            ([0.9, 0.8], [1.0, 1.0]),
            ([0.04], [0.04]),
            ([], []),
            ([None, 0.02, None, 0.03], [None, 0.04, None, 0.04]),
            ([0.0, 1.0], [0.0, 1.0]),
        ],
    )
    def test_examples(self, raw: list[float | None], adjusted: list[float | None]):
        """Published and hand-computed families; an undefined p-value stays undefined and is no test."""
        assert s.holm(raw) == pytest.approx(adjusted)

    @given(st.lists(st.none() | st.floats(0, 1), max_size=12), st.randoms(use_true_random=False))
    def test_properties(self, raw: list[float | None], random: Any):
        """At least the raw p, at most Bonferroni and 1; monotone in the raw p; order does not matter."""
        adjusted = s.holm(raw)
        known = [(p, q) for p, q in zip(raw, adjusted, strict=True) if p is not None and q is not None]
        assert [p is None for p in raw] == [q is None for q in adjusted]
        assert all(p <= q <= min(1.0, p * len(known)) for p, q in known)
        assert [q for _, q in sorted(known)] == sorted(q for _, q in known)
        order = list(range(len(raw)))
        random.shuffle(order)
        assert s.holm([raw[i] for i in order]) == [adjusted[i] for i in order]


class TestAgreement:
    """Cohen's and Fleiss' κ."""

    def test_cohen_wikipedia(self):
        """50 grant proposals, 20 yes/yes, 5 yes/no, 10 no/yes, 15 no/no: κ = 0.40 (Wikipedia, "Cohen's kappa")."""
        first = ["yes"] * 25 + ["no"] * 25
        second = ["yes"] * 20 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 15
        result = s.cohen_kappa(first, second)
        assert result.value == pytest.approx(0.4)
        assert result.n == 50

    def test_fleiss_1971_style_table(self):
        """10 subjects, 14 raters, 5 categories: κ = 0.210 (Wikipedia, "Fleiss' kappa", worked example)."""
        table = [
            [0, 0, 0, 0, 14],
            [0, 2, 6, 4, 2],
            [0, 0, 3, 5, 6],
            [0, 3, 9, 2, 0],
            [2, 2, 8, 1, 1],
            [7, 7, 0, 0, 0],
            [3, 2, 6, 3, 0],
            [2, 5, 3, 2, 2],
            [6, 5, 2, 1, 0],
            [0, 2, 2, 3, 7],
        ]
        ratings = [[label for label, count in enumerate(row) for _ in range(count)] for row in table]
        assert s.fleiss_kappa(ratings).value == pytest.approx(0.210, abs=5e-4)

    def test_undefined_when_agreement_is_certain(self):
        """One label throughout: expected agreement is 1, κ is neither 0 nor 1."""
        for result in (s.cohen_kappa([1, 1, 1], [1, 1, 1]), s.fleiss_kappa([[1, 1], [1, 1]])):
            assert result.value is None
            assert result.reason == "only one label was ever given"

    def test_one_item_says_nothing(self):
        """Votes 0,0,0 and 1,1,0 on one pair earn no κ, so no bonus."""
        for result in (s.fleiss_kappa([[0, 0, 0]]), s.fleiss_kappa([[1, 1, 0]]), s.cohen_kappa([0], [1])):
            assert result.value is None
            assert result.reason == "κ needs two items"
        assert s.fleiss_kappa([]).value is None
        assert s.cohen_kappa([], []).value is None

    def test_one_constant_rater_agrees_by_chance(self):
        """A rater who always says the same has κ = 0 with anyone who does not."""
        assert s.cohen_kappa(["a", "a", "a", "a"], ["a", "b", "a", "a"]).value == 0.0

    @given(label_pairs, st.randoms(use_true_random=False))
    def test_cohen_properties(self, pairs: list[tuple[str, str]], random: Any):
        """Symmetric, in [-1, 1], blind to names and order; 1 exactly when all agree."""
        a, b = split(pairs)
        result = s.cohen_kappa(a, b)
        assert s.cohen_kappa(b, a) == result
        assert s.cohen_kappa([hash(x) for x in a], [hash(y) for y in b]) == result
        if result.value is not None:
            assert -1 <= result.value <= 1
            assert (result.value == 1) == (a == b)
        random.shuffle(pairs)
        assert s.cohen_kappa(*split(pairs)) == result

    @given(st.integers(2, 5).flatmap(lambda n: st.lists(st.lists(labels, min_size=n, max_size=n), max_size=10)))
    def test_fleiss_properties(self, ratings: list[list[str]]):
        """In [-1 / (raters - 1), 1], blind to the order of items and raters; 1 exactly when every item is unanimous."""
        result = s.fleiss_kappa(ratings)
        assert s.fleiss_kappa([sorted(item) for item in reversed(ratings)]) == result
        if result.value is not None:
            assert -1 / (len(ratings[0]) - 1) - 1e-12 <= result.value <= 1
            assert (result.value == 1) == all(len(set(item)) == 1 for item in ratings)


class TestClassification:
    """Balanced accuracy and macro-F1."""

    def test_scikit_learn_examples(self):
        """The examples in scikit-learn's docstrings of ``balanced_accuracy_score`` and ``f1_score``."""
        assert s.balanced_accuracy([0, 1, 0, 0, 1, 0], [0, 1, 0, 0, 0, 1]).value == 0.625
        assert s.macro_f1([0, 1, 2, 0, 1, 2], [0, 2, 1, 0, 0, 1]).value == pytest.approx(0.8 / 3)

    def test_undefined(self):
        """Recall of an absent class is 0 / 0; no items, no score."""
        for truth in ([], ["met"], ["met", "met"]):
            assert s.balanced_accuracy(truth, ["unmet"] * len(truth)).value is None
        assert s.macro_f1([], []).value is None

    def test_a_label_that_only_the_prediction_uses(self):
        """It lowers macro-F1 (its F1 is 0) and leaves balanced accuracy a mean over the true labels."""
        truth, predicted = ["a", "a", "b", "b"], ["a", "c", "b", "b"]
        assert s.macro_f1(truth, predicted).value == pytest.approx((2 / 3 + 1 + 0) / 3)
        assert s.balanced_accuracy(truth, predicted).value == 0.75

    @given(label_pairs, st.randoms(use_true_random=False))
    def test_properties(self, pairs: list[tuple[str, str]], random: Any):
        """In [0, 1], 1 exactly for a perfect prediction, blind to order; macro-F1 is symmetric."""
        truth, predicted = split(pairs)
        for function in (s.balanced_accuracy, s.macro_f1):
            result = function(truth, predicted)
            if result.value is not None:
                assert 0 <= result.value <= 1
                assert (result.value == 1) == (truth == predicted)
            shuffled = list(pairs)
            random.shuffle(shuffled)
            assert function(*split(shuffled)) == result
        assert s.macro_f1(truth, predicted) == s.macro_f1(predicted, truth)
