"""The question of an experiment, and the answer: composed from its figures, and no bolder than they are.

Wording follows the interval: on one side of 0 after Holm's adjustment it "holds", on one side only before it is
"suggestive", with 0 inside it is "open", without an interval "undecided", and what was not run "not measured".
"""

from dataclasses import dataclass, replace
from typing import Literal

from decoevo_dspy.reporting.measures import Contrast, accepted, contrast, family
from decoevo_dspy.reporting.projection import Experiment
from decoevo_dspy.reporting.text import interval, listed, number, p_value, plural, signed
from decoevo_dspy.values.methods import BASELINE, COUPLED, MAIN, RIVALS

QUESTION = "Is it the decoupling, the extra budget, the richer prior, or the audit text?"
ALPHA = 0.05
FEW_SEEDS = 5

State = Literal["holds", "suggestive", "open", "against", "undecided", "not measured"]


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """One rival explanation: DecoEvo less the control (``lead``), and what the control itself gains over SkillOpt."""

    control: str
    title: str
    what: str
    lead: Contrast
    gain: Contrast
    state: State
    verdict: str

    @property
    def label(self) -> str:
        """The state in a few words; a rival that does not reach DecoEvo is not enough, the decoupling is supported."""
        coupled = self.control == COUPLED
        return {
            "holds": "supported" if coupled else "not enough by itself",
            "suggestive": "suggested only" if coupled else "probably not enough by itself",
            "open": "open",
            "against": "not supported" if coupled else "does better than DecoEvo",
            "undecided": "too little data",
            "not measured": "not measured",
        }[self.state]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Headline, rival explanations, and what the reader must bear in mind."""

    headline: str
    conclusion: str
    gain: Contrast
    explanations: tuple[Explanation, ...]
    cautions: tuple[str, ...]


def answer(experiment: Experiment) -> Answer:
    """Compose the answer from paired contrasts; Holm over the four leads."""
    gain = contrast(experiment, MAIN, BASELINE)
    written = (experiment.summary.get("methods", {}).get(MAIN) or {}).get("vs_skillopt") or {}
    gain = replace(gain, p_holm=written.get("p_holm"))
    leads = family([contrast(experiment, MAIN, control) for control in RIVALS])
    explanations = tuple(
        _explanation(experiment, control, title, what, lead)
        for (control, (title, what)), lead in zip(RIVALS.items(), leads, strict=True)
    )
    return Answer(
        headline=_headline(gain),
        conclusion=_conclusion(gain, explanations),
        gain=gain,
        explanations=explanations,
        cautions=tuple(_cautions(experiment, gain)),
    )


def figures(c: Contrast) -> str:
    """A contrast in words: mean, interval, p after Holm, number of seeds; or "undefined" and why."""
    if c.mean is None:
        return f"undefined: {c.why_undefined}"
    parts = [f"{signed(c.mean)} points"]
    parts.append(f"95 % CI {interval(c.interval)}" if c.interval else f"interval undefined: {c.why_undefined}")
    if c.p_holm is not None:
        parts.append(f"Holm p {p_value(c.p_holm)}")
    return f"{', '.join(parts)}, {plural(c.n, 'seed')}"


def _headline(gain: Contrast) -> str:
    if gain.mean is None:
        return f"DecoEvo against SkillOpt is undefined here: {gain.why_undefined}."
    told = figures(gain)
    if gain.direction is None:
        return f"DecoEvo's mean difference from SkillOpt is {told}: too little to say more."
    if gain.direction == 0:
        return f"No clear difference between DecoEvo and SkillOpt: {told}; the interval includes 0."
    weak = gain.p_holm is not None and gain.p_holm >= ALPHA
    adjusted = " That does not survive Holm's adjustment over all comparisons with SkillOpt." if weak else ""
    return f"DecoEvo scores {'above' if gain.direction > 0 else 'below'} SkillOpt: {told}.{adjusted}"


def _conclusion(gain: Contrast, explanations: tuple[Explanation, ...]) -> str:
    if gain.direction is None or gain.direction <= 0:
        return "There is no established gain over SkillOpt here, so there is none to attribute; the contrasts below \
stand for themselves."
    by_state: dict[str, list[str]] = {}
    for one in explanations:
        by_state.setdefault(one.state, []).append(one.title.removeprefix("The "))
    coupled = next(one for one in explanations if one.control == COUPLED)
    rivals = {s: [n for n in names if n != "decoupling"] for s, names in by_state.items()}
    said: list[str] = [_on_decoupling(coupled)]
    if rivals.get("holds"):
        said.append(f"The {listed(rivals['holds'])} alone {_does(rivals['holds'])} not account for the gain.")
    if rivals.get("suggestive"):
        said.append(
            f"The same is suggested for the {listed(rivals['suggestive'])}, but does not survive Holm's adjustment."
        )
    if rivals.get("open"):
        said.append(f"The {listed(rivals['open'])} cannot be told apart from DecoEvo here and may explain the gain.")
    if rivals.get("against"):
        said.append(f"The {listed(rivals['against'])} alone did better than DecoEvo and would explain the whole gain.")
    if rivals.get("undecided"):
        said.append(f"There is too little data on the {listed(rivals['undecided'])}.")
    if rivals.get("not measured"):
        said.append(f"The {listed(rivals['not measured'])} {_was(rivals['not measured'])} not measured.")
    return " ".join(said)


def _on_decoupling(one: Explanation) -> str:
    return {
        "holds": "With score-coupled acceptance the same audits end lower, which supports the decoupling.",
        "suggestive": "The decoupling seems to matter, but that contrast does not survive Holm's adjustment.",
        "open": "Whether the decoupling matters is open: the score-coupled variant cannot be told apart from DecoEvo.",
        "against": "The decoupling does not explain the gain: the score-coupled variant did better.",
        "undecided": "There is too little data on the decoupling.",
        "not measured": "The decoupling was not measured.",
    }[one.state]


def _does(names: list[str]) -> str:
    return "do" if len(names) > 1 else "does"


def _was(names: list[str]) -> str:
    return "were" if len(names) > 1 else "was"


def _explanation(experiment: Experiment, control: str, title: str, what: str, lead: Contrast) -> Explanation:
    gain, state = contrast(experiment, control, BASELINE), _state(lead)
    verdict = f"{lead.reason}." if state == "not measured" else f"DecoEvo − {control}: {figures(lead)}."
    if gain.mean is not None:
        verdict += f" {control} − SkillOpt: {figures(gain)}."
        whole = contrast(experiment, MAIN, BASELINE)
        if whole.direction == 1 and whole.mean and gain.direction == 1:
            verdict += f" That is {number(100 * gain.mean / whole.mean, 0)} % of DecoEvo's gain."
    return Explanation(control=control, title=title, what=what, lead=lead, gain=gain, state=state, verdict=verdict)


def _state(lead: Contrast) -> State:
    if lead.direction is None:
        return "not measured" if lead.difference is None else "undecided"
    if lead.direction < 0:
        return "against"
    if lead.direction == 0:
        return "open"
    # Equal differences leave p undefined; their interval, a point, decides then.
    return "holds" if lead.p_holm is None or lead.p_holm < ALPHA else "suggestive"


def _cautions(experiment: Experiment, gain: Contrast) -> list[str]:
    said: list[str] = []
    if experiment.simulated:
        said.append(
            "All of this comes from a simulated backbone: it shows whether the mechanisms work as described in a world "
            "with a known truth. It is no evidence about real models."
        )
    if 0 < gain.n < FEW_SEEDS:
        said.append(
            f"Only {plural(gain.n, 'matched seed')}: intervals are wide, and normality of the differences cannot be \
checked."
        )
    if experiment.problems:
        said.append(f"{plural(len(experiment.problems), 'run')} did not finish or has no score; see below.")
    idle = [m for m in experiment.methods if accepted(experiment, m, "generator") == 0]
    if idle:
        said.append(
            f"{listed(idle)} accepted no generator candidate in any run: there the comparison with SkillOpt's fixed "
            "generator tests nothing but chance."
        )
    if gain.missing:
        said.append(f"{plural(gain.missing, 'seed')} lacks a score on one side of DecoEvo − SkillOpt and is left out.")
    return said
