import pytest

from analysis.findings import findings
from tests.analysis.hand_made import full_study, plausible, report_source, study


def told(material):
    (found,) = findings(material)
    return found.sentences


@pytest.fixture(scope="module")
def whole():
    return told(report_source(*full_study(gaps=False), pool_seeds=True))


def test_the_best_by_validation_is_compared_with_no_embedding(whole):
    # `plausible` on two seeds: .181 + .09 + .05 + .03 + .01 - .004 * 3 = .349; none has .181.
    assert whole[0] == (
        "Day+Pos+Exp+Log is best by validation among 64 subsets and reaches test NDCG@10 .349."
    )
    assert whole[1].startswith("Against no embedding that is +0.1680 NDCG@10 [+0.1")
    assert whole[1].endswith("], Holm p < 0.001 over 63.")


def test_an_embedding_that_helps_is_said_with_its_numbers_and_one_that_does_not_is_not_claimed(
    whole,
):
    # Shapley of Pos: .09 - .004 * 5 / 6.
    pos = next(sentence for sentence in whole if sentence.startswith("Pos helps"))
    assert pos.startswith("Pos helps: +0.0867 NDCG@10 [+0.08")
    assert pos.endswith("] on average over all orders of adding embeddings, Holm p < 0.001 over 6.")
    assert any(sentence.startswith("Sin hurts: -0.0033 NDCG@10") for sentence in whole) or any(
        sentence.startswith("Whether Sin helps is not settled: -0.0033") for sentence in whole
    )
    assert any(sentence.startswith("Con adds nothing that the network") for sentence in whole)


def test_two_seeds_say_what_they_cannot_settle_and_what_would():
    sentences = told(report_source(*full_study(gaps=False)))
    assert any("|t|" in sentence for sentence in sentences)
    assert "meantime report --pool-seeds" in sentences[-1]


def test_one_seed_supports_no_claim():
    points = [{"embeddings": name, "value": plausible(name)} for name in ("none", "Pos")]
    sentences = told(report_source(*study(points)))
    assert sentences[1].endswith(", users alone varying; one seed supports no claim.")
    assert sentences[-1].startswith("One seed supports no claim about another")
    assert not any("Holm" in sentence for sentence in sentences)


def test_nothing_to_compare_is_no_finding():
    assert findings(report_source(*study([{"embeddings": "Pos"}]))) == ()
