"""`decoevo_dspy.rules.acceptance`: every rule that accepts or rejects, by property and at its edges."""

import inspect
import math
import random
import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoevo_dspy.rules.acceptance import (
    Accepted,
    AuditObjectives,
    Decision,
    Objective,
    PairedScores,
    ParetoRule,
    Rejected,
    ScoreGate,
    standard_error,
)
from decoevo_dspy.teleprompters.verification import decide_on_audits
from decoevo_dspy.values.rubric import Ungraded

LOST = Ungraded(reason="timeout")
unit = st.floats(0, 1, allow_nan=False).map(lambda v: round(v, 3))
signed = st.floats(-1, 1, allow_nan=False).map(lambda v: round(v, 3))
maybe = st.one_of(unit, st.just(LOST))
pairs = st.lists(st.tuples(unit, unit), min_size=1, max_size=12)
names = st.sampled_from(["structural", "contrastive", "safety"])
audits = st.dictionaries(names, st.lists(st.tuples(signed, signed), min_size=1, max_size=8), min_size=1)
Values = typing.Mapping[str, float | Ungraded]


def by_id(values: typing.Sequence[float | Ungraded]) -> dict[str, float | Ungraded]:
    """Values under question ids."""
    return {f"q{i}": v for i, v in enumerate(values)}


def paired(rows: typing.Sequence[tuple[float | Ungraded, float | Ungraded]]) -> PairedScores:
    """Rows (incumbent, candidate) by question."""
    return PairedScores(incumbent=by_id([a for a, _ in rows]), candidate=by_id([b for _, b in rows]))


def objectives(
    table: typing.Mapping[str, typing.Sequence[tuple[float | Ungraded, float | Ungraded]]],
) -> tuple[AuditObjectives, AuditObjectives]:
    """Rows (incumbent, candidate) by audit, as the two sides."""
    old = {name: Objective(values=by_id([a for a, _ in rows])) for name, rows in table.items()}
    new = {name: Objective(values=by_id([b for _, b in rows])) for name, rows in table.items()}
    return AuditObjectives(by_audit=old), AuditObjectives(by_audit=new)


def accepted(decision: Decision) -> bool:
    """Whether the candidate replaces the incumbent."""
    assert isinstance(decision, Accepted | Rejected)
    return isinstance(decision, Accepted)


class TestScoreGate:
    """The solver gate on V_s."""

    @given(pairs, unit)
    def test_it_is_exactly_the_inequality(self, rows: list[tuple[float, float]], epsilon: float):
        """Accept iff mean(s') − mean(s) > ε, strictly."""
        delta = math.fsum(b for _, b in rows) / len(rows) - math.fsum(a for a, _ in rows) / len(rows)
        assert accepted(ScoreGate(epsilon=epsilon).decide(paired(rows))) is (delta > epsilon)

    @given(pairs)
    def test_an_equal_candidate_is_rejected(self, rows: list[tuple[float, float]]):
        """No change is no improvement."""
        assert not accepted(ScoreGate().decide(paired([(a, a) for a, _ in rows])))

    @given(pairs, st.data())
    def test_a_better_candidate_is_never_worse_off(self, rows: list[tuple[float, float]], data: st.DataObject):
        """Monotone: raising any candidate score keeps an acceptance."""
        gate = ScoreGate(epsilon=0.01)
        raised = [(a, max(b, data.draw(unit))) for a, b in rows]
        if accepted(gate.decide(paired(rows))):
            assert accepted(gate.decide(paired(raised)))

    @given(pairs, st.randoms(use_true_random=False))
    def test_the_order_of_questions_does_not_matter(self, rows: list[tuple[float, float]], rng: random.Random):
        """Pairs belong together by id, whatever order they come in."""
        scores = paired(rows)
        keys = list(scores.candidate)
        rng.shuffle(keys)
        other = PairedScores(incumbent=scores.incumbent, candidate={k: scores.candidate[k] for k in keys})
        assert ScoreGate().decide(scores) == ScoreGate().decide(other)

    @given(st.lists(st.tuples(maybe, maybe), max_size=12), st.floats(0, 0.99), st.floats(0, 3))
    def test_undecided_never_accepts(
        self, rows: list[tuple[float | Ungraded, float | Ungraded]], limit: float, z: float
    ):
        """With more than the allowed share ungraded on either side the gate rejects, and says so."""
        lost = sum(isinstance(a, Ungraded) or isinstance(b, Ungraded) for a, b in rows)
        decision = ScoreGate(z=z, max_ungraded=limit).decide(paired(rows))
        if not rows or lost == len(rows) or lost > limit * len(rows):
            assert isinstance(decision, Rejected)
            assert decision.reason == f"undecided: {lost} of {len(rows)} questions ungraded"
        else:
            assert not decision.reason.startswith("undecided")

    def test_an_ungraded_answer_is_left_out_on_both_sides(self):
        """A failure on a hard question must not lift the side that failed."""
        rows: typing.Sequence[tuple[float | Ungraded, float | Ungraded]] = [*[(0.9, 0.9)] * 9, (0.0, LOST)]
        decision = ScoreGate(max_ungraded=0.1).decide(paired(rows))
        assert isinstance(decision, Rejected)
        assert decision.deltas == {"J": pytest.approx(0.0)}

    def test_a_noise_margin_asks_for_more_than_the_threshold(self):
        """With z the rise must exceed z standard errors as well."""
        rows = [(0.0, 1.0), (1.0, 0.0), (0.0, 1.0)]
        assert accepted(ScoreGate().decide(paired(rows)))
        assert not accepted(ScoreGate(z=1.645).decide(paired(rows)))
        assert accepted(ScoreGate(z=1.645).decide(paired([(0.0, 0.9), (0.0, 1.0), (0.0, 0.95)])))

    def test_with_a_noise_margin_one_question_clears_nothing(self):
        """A single pair has no standard error."""
        assert accepted(ScoreGate().decide(paired([(0.0, 1.0)])))
        assert not accepted(ScoreGate(z=0.1).decide(paired([(0.0, 1.0)])))

    def test_sides_on_different_questions_are_refused(self):
        """Unpaired scores are a programming error."""
        with pytest.raises(ValueError, match="same questions"):
            PairedScores(incumbent={"a": 0.1}, candidate={"b": 0.2})


@given(st.lists(signed, max_size=20))
def test_the_standard_error_is_that_of_paired_differences(deltas: list[float]):
    """ddof 1 over √n; unknown below two."""
    found = standard_error(deltas)
    if len(deltas) < 2:
        assert found is None
        return
    centre = sum(deltas) / len(deltas)
    variance = sum((d - centre) ** 2 for d in deltas) / (len(deltas) - 1)
    assert found == pytest.approx(math.sqrt(variance / len(deltas)), abs=1e-12)


class TestParetoRule:
    """The generator gate on V_g."""

    @given(audits, st.floats(0.001, 0.5), st.floats(0, 0.5))
    def test_it_is_exactly_the_inequality(self, table: dict[str, list[tuple[float, float]]], delta: float, eta: float):
        """Accept iff some Δ_k > δ and all Δ_j ≥ −η."""
        rises = [
            math.fsum(b for _, b in rows) / len(rows) - math.fsum(a for a, _ in rows) / len(rows)
            for rows in table.values()
        ]
        wanted = any(d > delta for d in rises) and all(d >= -eta for d in rises)
        assert accepted(ParetoRule(delta=delta, eta=eta).decide(*objectives(table))) is wanted

    @given(audits, st.floats(0.1, 3))
    def test_a_fall_within_its_own_noise_does_not_veto(self, table: dict[str, list[tuple[float, float]]], eta_z: float):
        """With η_z, an objective vetoes iff it fell by more than η and by more than η_z standard errors."""
        old, new = objectives(table)
        strict, lenient = ParetoRule(), ParetoRule(eta_z=eta_z)
        found, literal = lenient.decide(old, new), strict.decide(old, new)
        falls = {
            name: delta < -0.01 and ((error := found.standard_errors[name]) is None or -delta > eta_z * error)
            for name, delta in found.deltas.items()
            if delta is not None
        }
        rises = any(delta is not None and delta > 0.02 for delta in found.deltas.values())
        assert accepted(found) is (rises and not any(falls.values()))
        assert accepted(found) or not accepted(literal)

    @given(audits, st.data())
    def test_it_is_monotone(self, table: dict[str, list[tuple[float, float]]], data: st.DataObject):
        """Raising candidate values, or lowering incumbent ones, never turns an acceptance into a rejection."""
        rule = ParetoRule()
        better = {
            name: [(min(a, data.draw(signed)), max(b, data.draw(signed))) for a, b in rows]
            for name, rows in table.items()
        }
        if accepted(rule.decide(*objectives(table))):
            assert accepted(rule.decide(*objectives(better)))

    @given(audits)
    def test_the_same_generator_is_never_accepted(self, table: dict[str, list[tuple[float, float]]]):
        """Equal objectives on both sides reject for every δ > 0."""
        old, _ = objectives(table)
        assert not accepted(ParetoRule(delta=1e-9).decide(old, old))

    @given(audits, names, st.floats(0, 0.9))
    def test_undecided_never_accepts(self, table: dict[str, list[tuple[float, float]]], name: str, limit: float):
        """One audit with too many ungraded questions is enough, however good the others look."""
        rows: dict[str, list[tuple[float | Ungraded, float | Ungraded]]] = {
            n: [(-1.0, 1.0) for _ in r] for n, r in table.items()
        }
        rows[name] = [*[(LOST, 1.0)] * 9, (-1.0, 1.0)]
        decision = ParetoRule(max_ungraded=min(limit, 0.89)).decide(*objectives(rows))
        assert isinstance(decision, Rejected)
        assert decision.reason.startswith("undecided")
        assert decision.deltas[name] is None

    def test_a_rise_does_not_excuse_a_fall(self):
        """A large gain in one view with a loss beyond η in another is rejected (names the loser)."""
        decision = ParetoRule().decide(*objectives({"structural": [(0.1, 0.9)], "contrastive": [(0.5, 0.48)]}))
        assert isinstance(decision, Rejected)
        assert decision.reason.startswith("contrastive fell by more than 0.01")

    def test_a_fall_within_eta_is_tolerated(self):
        """Exactly −η is still allowed."""
        table = {"structural": [(0.0, 0.5)], "contrastive": [(0.5, 0.25)]}
        assert accepted(ParetoRule(eta=0.25).decide(*objectives(table)))
        assert not accepted(ParetoRule(eta=0.24).decide(*objectives(table)))

    def test_exactly_delta_is_not_enough(self):
        """Δ > δ, strictly."""
        table = {"structural": [(0.25, 0.5)]}
        assert not accepted(ParetoRule(delta=0.25).decide(*objectives(table)))
        assert accepted(ParetoRule(delta=0.24).decide(*objectives(table)))

    def test_an_audit_without_records_is_absent_not_zero(self):
        """K_t holds the available objectives; an absent one neither helps nor harms."""
        old = AuditObjectives(by_audit={"structural": Objective(values={"q": 0.1}), "contrastive": Objective()})
        new = AuditObjectives(by_audit={"structural": Objective(values={"q": 0.9}), "contrastive": Objective()})
        decision = ParetoRule().decide(old, new)
        assert accepted(decision)
        assert set(decision.deltas) == {"structural"}

    def test_without_any_objective_nothing_is_decided(self):
        """No records at all: rejected as undecided."""
        empty = AuditObjectives(by_audit={"structural": Objective(), "contrastive": Objective()})
        decision = ParetoRule().decide(empty, empty)
        assert isinstance(decision, Rejected)
        assert decision.reason.startswith("undecided")

    @pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
    @pytest.mark.parametrize("side", [0, 1])
    def test_nan_and_infinity_refuse(self, bad: float, side: int):
        """(nan, .9) must never be an acceptance."""
        row = (bad, 0.9) if side == 0 else (0.1, bad)
        with pytest.raises(ValueError, match="finite"):
            ParetoRule().decide(*objectives({"structural": [row]}))
        with pytest.raises(ValueError, match="finite"):
            ScoreGate().decide(paired([row]))

    @pytest.mark.parametrize("side", [0, 1])
    def test_none_refuses(self, side: int):
        """(None, .9) must never be an acceptance."""
        row = typing.cast("tuple[float, float]", (None, 0.9) if side == 0 else (0.1, None))
        with pytest.raises(TypeError):
            ParetoRule().decide(*objectives({"structural": [row]}))

    def test_an_ungraded_value_refuses(self):
        """(ungraded, .9) on the only question is undecided."""
        decision = ParetoRule(max_ungraded=0.99).decide(*objectives({"structural": [(LOST, 0.9)]}))
        assert isinstance(decision, Rejected)
        assert decision.reason.startswith("undecided")

    def test_a_rise_within_the_noise_does_not_count(self):
        """With z the paired standard error must be cleared; the fall clause keeps its literal form."""
        noisy = {"structural": [(0.0, 1.0), (1.0, 0.0), (0.0, 1.0)]}
        assert accepted(ParetoRule().decide(*objectives(noisy)))
        assert not accepted(ParetoRule(z=1.645).decide(*objectives(noisy)))
        steady = {"structural": [(0.0, 0.5), (0.1, 0.6), (0.2, 0.75)]}
        assert accepted(ParetoRule(z=1.645).decide(*objectives(steady)))

    def test_the_two_sides_must_be_audited_alike(self):
        """Missing an audit on one side is a programming error, not an advantage."""
        with pytest.raises(ValueError, match="audited alike"):
            ParetoRule().decide(
                AuditObjectives(by_audit={"structural": Objective(values={"q": 0.1})}), AuditObjectives(by_audit={})
            )

    def test_the_two_sides_must_answer_the_same_questions(self):
        """Objectives are paired by question."""
        sides = [AuditObjectives(by_audit={"structural": Objective(values={q: 0.5})}) for q in ("q1", "q2")]
        with pytest.raises(ValueError, match="same questions"):
            ParetoRule().decide(*sides)

    @pytest.mark.parametrize("decide", [ParetoRule.decide, decide_on_audits])
    def test_no_argument_can_carry_a_solver_score(self, decide: typing.Any):
        """Definition 1 as a type: a generator decision takes audit objectives and nothing else."""
        hints = typing.get_type_hints(decide)
        arguments = [hints[name] for name in inspect.signature(decide).parameters if name not in ("self", "rule")]
        assert arguments == [AuditObjectives, AuditObjectives]
        assert typing.get_type_hints(AuditObjectives).keys() == {"by_audit"}
