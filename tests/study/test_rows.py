from model.results import MetricValue, TrialResult
from study.rows import result_row


def result_of(protocol):
    metrics = tuple(
        MetricValue("test", name, "ndcg@10", {"full": 0.1}.get(name, 0.4))
        for name in dict.fromkeys((protocol, "full"))
    )
    return TrialResult(1, 1, "epochs", metrics, (), 10, 1.0, protocol=protocol)


def test_columns_without_a_protocol_in_their_name_hold_the_trials_own():
    rows = {
        name: result_row("t", 1, result_of(name), fingerprint="f")
        for name in ("popular-100", "uniform-100", "full")
    }
    found = {n: (row["test_ndcg@10"], row["test_full_ndcg@10"]) for n, row in rows.items()}
    assert found == {"popular-100": (0.4, 0.1), "uniform-100": (0.4, 0.1), "full": (0.1, 0.1)}
