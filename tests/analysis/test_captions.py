from analysis.captions import notes
from analysis.tables import measure, measured_cells
from tests.analysis.hand_made import study


def test_validation_is_called_optimistic_and_test_is_read_at_its_best_epoch():
    declared = measured_cells(*study([{"embeddings": "Log"}]))
    assert notes(measure("validation_ndcg@10"), declared, [])[0] == (
        "NDCG@10, validation, at the epoch chosen on the same users, hence optimistic; "
        "protocol popular-100 (up to 100 negatives per user, by popularity)."
    )
    assert notes(measure("test_ndcg@10"), declared, [])[0].startswith(
        "NDCG@10, test, read at the best validation epoch; "
    )


def test_the_full_protocol_says_whether_items_seen_before_compete():
    for repeats, said in (
        ("excluded", "protocol full (all items except those the user already had)."),
        ("allowed", "protocol full (all items)."),
    ):
        declared = measured_cells(*study([{"embeddings": "Log", "repeats": repeats}]))
        assert notes(measure("test_full_ndcg@10"), declared, [])[0].endswith(said)


def test_a_column_without_a_protocol_in_its_name_names_the_trials_own():
    for protocol, said in (
        ("uniform-100", "protocol uniform-100 (up to 100 negatives per user, each as likely)."),
        ("full", "protocol full (all items except those the user already had)."),
    ):
        declared = measured_cells(*study([{"embeddings": "Log", "protocol": protocol}]))
        assert notes(measure("test_ndcg@10"), declared, [])[0].endswith(said)
