"""What counts as an end of a grid, and which value a search tries beyond it."""

from attnlab.measure.grid_search import GrowingGrid, end_of


def test_a_value_is_inside_only_where_its_neighbours_are_near() -> None:
    assert [end_of(x, (0.1, 1.0, 10.0)) for x in (0.1, 1.0, 10.0)] == ["smallest", "", "largest"]
    assert end_of(0.1, (0.1,)) == "smallest"  # of one value: either would be right
    assert (
        end_of(1.0, (0.05, 1.0, 3.0)) == "smallest" and end_of(1.0, (0.3, 1.0, 12.0)) == "largest"
    )


def test_a_grid_grows_so_often_and_no_further() -> None:
    grid = GrowingGrid({0.01, 0.03}, factor=3.0, most=3)
    assert [grid.beyond([max(grid.tried)]) for _ in range(2)] == [0.09, 0.3]
    assert grid.beyond([0.03, 0.09]) is None  # inside by now
    assert [grid.beyond([min(grid.tried)]) for _ in range(2)] == [0.003, None] and grid.added == 3


def test_of_several_choices_the_smallest_at_an_end_goes_first() -> None:
    grid = GrowingGrid({0.1, 0.2, 0.4}, factor=2.0, most=2)
    assert [grid.beyond({0.4, 0.1, 0.2}) for _ in range(3)] == [0.05, 0.8, None]


def test_a_single_value_was_not_searched() -> None:
    assert GrowingGrid({0.1}, factor=3.0, most=5).beyond([0.1]) is None


def test_whole_numbers_stay_whole_and_inside_the_limits() -> None:
    grid = GrowingGrid({3, 2}, factor=2, most=9, digits=3, limits=(1, 11))
    assert [grid.beyond([min(grid.tried)]) for _ in range(2)] == [1, None]
    assert [grid.beyond([max(grid.tried)]) for _ in range(2)] == [6, None]
    assert all(isinstance(value, int) for value in grid.tried)


def test_a_value_that_was_tried_is_not_tried_again() -> None:
    """A factor above an order of magnitude leaves a gap: the choice stays an end of its grid."""
    grid = GrowingGrid({1.0, 20.0}, factor=20.0, most=5)
    assert grid.beyond([20.0]) is None and end_of(20.0, grid.tried) == "smallest"
