from model.popularity import popularity_ranks


def test_popularity_counts_training_prefixes_only(prepared_of):
    # Training prefixes: [1, 1, 2], [1], [3]. The test targets are 4, 2 and 5.
    data = prepared_of([[1, 1, 2, 5, 4], [1, 5, 2], [3, 5, 5]], n_items=5)
    full = popularity_ranks(data, "test", protocols=("full",))[0]
    # User 0 saw 1, 2, 5: candidates 3 (count 1) and the target 4 (0).
    # User 1 saw 1, 5: 3 (1) and 4 (0) against the target 2 (1).
    # User 2 saw 3, 5: 1 (3), 2 (1) and 4 (0) against the target 5 (0, though it is held out often).
    assert full.greater.tolist() == [1, 0, 2]
    assert full.equal.tolist() == [0, 1, 1]
