"""What the paper reports, to be shown beside one's own figures; never used to compute anything.

Source: DecoEvo, §4.2-4.6 (Tables 1-4 and their text): GPT-4o, Qwen3-4B and Qwen3-8B, five matched runs each. Ranges run
over the three backbones. The paper's figures are from real models on HealthBench; a simulated backbone is no
replication of them.
"""

from dataclasses import dataclass

SOURCE = "DecoEvo paper, HealthBench, range over GPT-4o, Qwen3-4B and Qwen3-8B, five matched runs each"


@dataclass(frozen=True)
class Reported:
    """A range in points on 0-100, with the place it stands at and a remark where one is needed.

    † marks the one range that the paper gives for rubric blindness and near-tie sampling together.
    """

    low: float
    high: float
    where: str
    remark: str = ""


MAIN = (
    ("GPT-4o", 3.10, (2.88, 3.32)),
    ("Qwen3-4B", 1.74, (1.42, 2.06)),
    ("Qwen3-8B", 1.78, (1.69, 1.87)),
)
"""§4.2: DecoEvo less SkillOpt, mean of five benchmarks, paired 95 % t-interval; all significant after Holm."""

OVER_SKILLOPT = {
    "decoevo": Reported(1.6, 3.6, "§4.4"),
    "sc-coevo": Reported(-1.5, -1.0, "Table 1"),
    "task-prior": Reported(0.4, 0.7, "§4.4"),
    "budget-matched": Reported(0.4, 0.6, "§4.4"),
    "direct-audit": Reported(2.0, 2.0, "§4.6", "GPT-4o only"),
}
"""Gain over SkillOpt on HealthBench."""

BELOW_DECOEVO = {"direct-audit": Reported(0.8, 1.6, "§4.4")}
"""How far a control stays below DecoEvo on HealthBench, where the paper says so."""

ABLATION_LOSS = {
    "no-structural": Reported(1.3, 1.7, "§4.3"),
    "no-contrastive": Reported(1.7, 2.1, "§4.3"),
    "no-blind": Reported(1.0, 1.5, "§4.3", "†"),
    "no-near-tie": Reported(1.0, 1.5, "§4.3", "†"),
    "no-verification": Reported(2.4, 2.9, "§4.3"),
    "no-distillation": Reported(1.4, 1.8, "§4.3"),
}
"""Points lost against DecoEvo on HealthBench."""

TOKENS_VS_SKILLOPT = {"decoevo": 1.89, "sc-coevo": 1.89, "budget-matched": 1.89, "direct-audit": 1.87}
"""§4.6 and Table 4, HealthBench with GPT-4o; direct-audit is 98.8 % of DecoEvo's tokens."""

FINAL_PROXY_SC_COEVO = 89.1
"""§4.5: SC-CoEvo's own proxy at its last checkpoint, while its official score had fallen."""
