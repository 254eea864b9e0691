from analysis.gallery.labels import CHARACTER, sides


def test_a_name_stands_to_the_right_of_a_lonely_point_and_stays_on_the_page():
    # The right one has no room to its right.
    assert sides([0, 1], [0, 1], {0: "Pos", 1: "Log"}, width=300, height=300) == [
        "middle right",
        "middle left",
    ]


def test_a_name_covers_no_other_point_where_a_side_is_free():
    # A row of points 12 pixels apart: a name of 5 letters covers two of them on either side.
    assert 5 * CHARACTER > 2 * 12
    x = [float(step) for step in range(11)]
    (side,) = sides(x, [0.0] * 11, {5: "Day+X"}, width=120, height=300)
    assert side.startswith(("top", "bottom"))


def test_two_names_at_one_place_do_not_cover_each_other():
    found = sides([0, 0, 1], [0, 0, 1], {0: "none", 1: "Day"}, width=300, height=300)
    assert len(set(found)) == 2
