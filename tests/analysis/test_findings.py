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
        "Day+Pos+Exp+Log is best by validation NDCG@10 among 64 subsets (mode: same) and reaches "
        ".349 test NDCG@10 (popular-100), the mean over 2 seeds."
    )
    assert whole[1].startswith(
        "Against no embedding that is +0.1680 test NDCG@10 (popular-100) [+0.1"
    )
    assert whole[1].endswith("], Holm p < 0.001 over 63.")


def test_an_embedding_that_helps_is_said_with_its_numbers_and_one_that_does_not_is_not_claimed(
    whole,
):
    # Shapley of Pos: .09 - .004 * 5 / 6.
    pos = next(sentence for sentence in whole if sentence.startswith("Pos helps"))
    assert pos.startswith("Pos helps: +0.0867 test NDCG@10 (popular-100) [+0.08")
    assert pos.endswith(
        "] against the same subset without it, mean over all orders of adding, "
        "Holm p < 0.001 over 6."
    )
    assert any(sentence.startswith("Sin hurts: -0.0033 test NDCG@10") for sentence in whole) or any(
        sentence.startswith("Whether Sin helps is open: -0.0033") for sentence in whole
    )
    assert any(sentence.startswith("Con is the negative control") for sentence in whole)


def test_every_difference_names_its_quantity_and_protocol(whole):
    differences = [sentence for sentence in whole if "Holm p" in sentence]
    assert len(differences) >= 7
    assert all("test NDCG@10 (popular-100)" in sentence for sentence in differences)


def test_what_differs_from_no_embedding_is_said_even_where_the_best_does_not():
    # Pos gains .05 in each of three seeds, Log .2, .05 and -.04 in turn: the mean is higher.
    gains = {"none": (0, 0, 0), "Pos": (0.05, 0.0501, 0.0499), "Log": (0.2, 0.05, -0.04)}
    points = [
        {"embeddings": subset, "seed": seed, "value": 0.2 + gain}
        for subset, own in gains.items()
        for seed, gain in enumerate(own)
    ]
    sentences = told(report_source(*study(points)))
    assert sentences[0].startswith("Log is best by validation")
    assert sentences[1].endswith(", not settled.")
    (only,) = [sentence for sentence in sentences if "compared with no embedding" in sentence]
    assert only.startswith(
        "Of 2 subsets compared with no embedding, 1 differs from it beyond chance in test NDCG@10 "
        "(popular-100), Holm over 2; it is Pos: +0.0500 test NDCG@10 (popular-100) ["
    )


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
