"""The seven disjoint partitions and the guard that keeps them disjoint. Pure; deterministic in the seed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

from decoevo_dspy.errors import ConfigurationError, DataError, LeakageError
from decoevo_dspy.values.seeds import derive
from decoevo_dspy.values.task import Question, text_key

NAMES = ("pilot", "train", "probe", "solver_gate", "generator_gate", "diagnostic", "test")


@dataclass(frozen=True, kw_only=True)
class Partitions:
    """Seven disjoint sets of questions (docs/METHOD.md §8): by id and by normalised text.

    ``pilot`` tunes settings, ``train`` feeds solver rollouts, ``probe`` feeds the audits, ``solver_gate`` is V_s,
    ``generator_gate`` is V_g, ``diagnostic`` is watched and never decides, ``test`` is opened once.

    Raises:
        LeakageError: when an id or a question text stands twice, in one partition or in two.
    """

    pilot: tuple[Question, ...] = ()
    train: tuple[Question, ...] = ()
    probe: tuple[Question, ...] = ()
    solver_gate: tuple[Question, ...] = ()
    generator_gate: tuple[Question, ...] = ()
    diagnostic: tuple[Question, ...] = ()
    test: tuple[Question, ...] = ()

    def __post_init__(self) -> None:
        check_distinct((question, name) for name, questions in self.items() for question in questions)

    def items(self) -> Iterator[tuple[str, tuple[Question, ...]]]:
        """(name, questions) in the order of `NAMES`."""
        for field in fields(self):
            yield field.name, getattr(self, field.name)

    def ids(self) -> dict[str, list[str]]:
        """The id lists, as they are written into a run."""
        return {name: [question.id for question in questions] for name, questions in self.items()}


def check_distinct(questions: Iterable[tuple[Question, str]]) -> None:
    """Refuse a repeated id or text. Each question comes with the place it stands in, for the message.

    Rounds of one conversation group may repeat a text: they are one unit.

    Raises:
        LeakageError: naming both places.
    """
    ids: dict[str, str] = {}
    texts: dict[str, tuple[str, str, str | None]] = {}
    for question, place in questions:
        if question.id in ids:
            both = f"twice in {place}" if ids[question.id] == place else f"in {ids[question.id]} and in {place}"
            raise LeakageError(f"question id {question.id!r} stands {both}; give every question its own id")
        ids[question.id] = place
        key = text_key(question.text)
        if key in texts:
            other, where, group = texts[key]
            if group is not None and group == question.group:
                continue
            raise LeakageError(
                f"questions {other!r} ({where}) and {question.id!r} ({place}) have the same text; remove one of them"
            )
        texts[key] = (question.id, place, question.group)


def split(questions: Sequence[Question], sizes: Mapping[str, int], seed: int) -> Partitions:
    """Deal questions into partitions of the given sizes, stratified by ``Question.stratum``.

    The rounds of a conversation stay together. Only its first round serves in partitions that optimise (later rounds
    need the model's own earlier answers); the test partition gets whole conversations, and ``test`` counts questions.

    Raises:
        ConfigurationError: for an unknown partition name or a negative size.
        DataError: when there are too few questions.
        LeakageError: for duplicates.
    """
    for name, size in sizes.items():
        if name not in NAMES:
            raise ConfigurationError(f"data.sizes has no partition {name!r}; the names are {', '.join(NAMES)}")
        if isinstance(size, bool) or size < 0:
            raise ConfigurationError(f"data.sizes.{name} = {size!r}: give a whole number from 0")
    check_distinct((question, "the data") for question in questions)
    units = interleave(_units(questions), seed)
    wanted = sum(sizes.values())
    if wanted > sum(map(len, units)) or sum(size for name, size in sizes.items() if name != "test") > len(units):
        raise DataError(
            f"too few rows: data.sizes asks for {wanted} questions, the data has {len(questions)} in {len(units)} "
            "conversations; make the partitions smaller"
        )
    dealt: dict[str, tuple[Question, ...]] = {}
    start = 0
    for name in NAMES[:-1]:
        end = start + sizes.get(name, 0)
        dealt[name] = tuple(unit[0] for unit in units[start:end])
        start = end
    return Partitions(**dealt, test=_whole_units(units[start:], sizes.get("test", 0)))


def _units(questions: Sequence[Question]) -> list[tuple[Question, ...]]:
    groups: dict[str, list[Question]] = {}
    for question in questions:
        groups.setdefault(f"g:{question.group}" if question.group is not None else f"q:{question.id}", []).append(
            question
        )
    return [tuple(sorted(group, key=lambda q: q.round)) for group in groups.values()]


def interleave(units: Sequence[tuple[Question, ...]], seed: int) -> list[tuple[Question, ...]]:
    """Units in an order of which every stretch holds all strata in proportion, shuffled within strata by the seed."""
    strata: dict[str, list[tuple[Question, ...]]] = {}
    for unit in sorted(units, key=lambda u: derive(seed, "split", u[0].id)):
        strata.setdefault(unit[0].stratum, []).append(unit)
    placed = [
        ((rank + 0.5) / len(members), derive(seed, "stratum", stratum), unit)
        for stratum, members in strata.items()
        for rank, unit in enumerate(members)
    ]
    return [unit for _, _, unit in sorted(placed, key=lambda p: (p[0], p[1]))]


def _whole_units(units: Sequence[tuple[Question, ...]], size: int) -> tuple[Question, ...]:
    """Whole conversations, as many as fit into ``size`` questions; the last ones are cut by rounds if need be."""
    chosen: list[Question] = []
    left: list[tuple[Question, ...]] = []
    for unit in units:
        if len(chosen) + len(unit) <= size:
            chosen.extend(unit)
        else:
            left.append(unit)
    for unit in left:
        chosen.extend(unit[: size - len(chosen)])
    return tuple(chosen)
