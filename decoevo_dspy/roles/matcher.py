"""The matcher as a module: which generated and which gold criteria express the same requirement."""

from collections.abc import Sequence

import dspy

from decoevo_dspy.roles.base import InvalidReply, NoReply, Role
from decoevo_dspy.signatures import MatchCriteria


class Matcher(Role):
    """Pairs criteria by requirement. Both lists are shown in alphabetical order, so their own order changes nothing."""

    name = "matcher"
    signature = MatchCriteria

    def pairs(
        self,
        question: str,
        generated: Sequence[tuple[str, float]],
        gold: Sequence[tuple[str, float]],
        *,
        partition: str = "test",
        sample: str = "match",
    ) -> set[tuple[int, int]] | NoReply:
        """Index pairs (generated, gold) that match; criteria are (text, points), gold points may be negative."""
        left = sorted(range(len(generated)), key=lambda i: (generated[i][0], generated[i][1], i))
        right = sorted(range(len(gold)), key=lambda i: (gold[i][0], gold[i][1], i))

        def read(prediction: dspy.Prediction) -> set[tuple[int, int]]:
            found: set[tuple[int, int]] = set()
            for pair in prediction.matches.pairs:
                a, b = int(pair.generated[1:]) - 1, int(pair.gold[1:]) - 1
                if not (0 <= a < len(left) and 0 <= b < len(right)):
                    raise InvalidReply(f"no such criterion: {pair.generated}, {pair.gold}")
                found.add((left[a], right[b]))
            return found

        inputs = {
            "question": self.fence("question", question),
            "generated": self.fence("generated criteria", _lines("g", [generated[i] for i in left])),
            "gold": self.fence("reference criteria", _lines("r", [gold[i] for i in right])),
        }
        return self.ask(read, inputs, partition=partition, sample=sample)


def _lines(letter: str, criteria: Sequence[tuple[str, float]]) -> str:
    return "\n".join(
        f"{letter}{i}. ({points:g} points) {' '.join(text.split())}"
        for i, (text, points) in enumerate(criteria, start=1)
    )
