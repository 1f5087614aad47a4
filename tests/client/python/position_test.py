"""client/python/millrace/_position.py: where a loader is in its epochs."""

import unittest

from _position import Position, Progress

_STEPS = 3


class Loop:
    """The loader's use of Progress, without batches."""

    def __init__(self, progress=None):
        self.progress = progress or Progress()

    def iterate(self, leave_after=None):
        """The (epoch, step) of one iteration, as `for` sees them."""
        seen = []
        self.progress.begin()
        while self.progress.here.step < _STEPS:
            if leave_after is not None and len(seen) == leave_after:
                return seen
            seen.append(tuple(self.progress.here))
            self.progress.advance(*self.progress.here)
        self.progress.finish()
        return seen


def _epoch(number, first=0):
    return [(number, step) for step in range(first, _STEPS)]


class Epochs(unittest.TestCase):

    def test_each_iteration_is_the_next_epoch(self):
        loop = Loop()
        self.assertEqual([loop.iterate() for _ in range(3)], [_epoch(0), _epoch(1), _epoch(2)])

    def test_an_iteration_that_is_left_early_is_over(self):
        loop = Loop()
        loop.iterate(leave_after=1)
        self.assertEqual(loop.iterate(), _epoch(1))

    def test_set_epoch_chooses_the_next_iteration(self):
        loop = Loop()
        for epoch in (0, 1, 5, 5, 2):
            loop.progress.set_epoch(epoch)
            self.assertEqual(loop.iterate(), _epoch(epoch))
        self.assertEqual(loop.iterate(), _epoch(3))

    def test_set_epoch_of_an_epoch_that_was_left_begins_it_again(self):
        loop = Loop()
        loop.iterate(leave_after=2)
        loop.progress.set_epoch(0)
        self.assertEqual(loop.iterate(), _epoch(0))

    def test_a_jump_into_an_epoch(self):
        loop = Loop()
        loop.progress.jump(Position(4, 1))
        self.assertEqual(loop.iterate(), _epoch(4, 1))
        self.assertEqual(loop.iterate(), _epoch(5))


class States(unittest.TestCase):

    def _resumed(self, state, epochs=2):
        loop = Loop()
        loop.progress.jump(state)
        return [loop.iterate() for _ in range(epochs)]

    def test_before_the_first_batch(self):
        self.assertEqual(Progress().here, (0, 0))
        self.assertEqual(self._resumed(Progress().here), [_epoch(0), _epoch(1)])

    def test_within_an_epoch(self):
        loop = Loop()
        loop.iterate(leave_after=2)
        self.assertEqual(loop.progress.here, (0, 2))
        self.assertEqual(self._resumed(loop.progress.here), [_epoch(0, 2), _epoch(1)])

    def test_after_the_last_batch_and_before_stop_iteration(self):
        progress = Progress()
        progress.begin()
        for step in range(_STEPS):
            progress.advance(0, step)
        self.assertEqual(progress.here, (0, _STEPS))
        self.assertEqual(self._resumed(progress.here, 3), [[], _epoch(1), _epoch(2)])

    def test_after_stop_iteration(self):
        loop = Loop()
        loop.iterate()
        self.assertEqual(loop.progress.here, (1, 0))
        self.assertEqual(self._resumed(loop.progress.here), [_epoch(1), _epoch(2)])

    def test_set_epoch_continues_the_epoch_of_the_state(self):
        progress = Progress()
        progress.jump(Position(3, 2))
        progress.set_epoch(3)
        self.assertEqual(Loop(progress).iterate(), _epoch(3, 2))

    def test_set_epoch_of_another_epoch_forgets_the_step(self):
        progress = Progress()
        progress.jump(Position(3, 2))
        progress.set_epoch(4)
        self.assertEqual(progress.here, (4, 0))
        self.assertEqual(Loop(progress).iterate(), _epoch(4))

    def test_a_state_after_set_epoch_is_that_epoch(self):
        loop = Loop()
        loop.iterate()
        loop.progress.set_epoch(7)
        self.assertEqual(loop.progress.here, (7, 0))

    def test_set_epoch_within_an_iteration_is_for_the_next_one(self):
        progress = Progress()
        progress.begin()
        progress.advance(0, 0)
        progress.set_epoch(6)
        progress.advance(0, 1)
        self.assertEqual(progress.here, (0, 2))
        progress.advance(0, 2)
        progress.finish()
        self.assertEqual(progress.here, (6, 0))


class Counts(unittest.TestCase):
    """Frameworks that set the epoch of a sampler."""

    def _counted(self, loop, counts):
        result = []
        for count in counts:
            loop.progress.count(count)
            result.append(loop.iterate())
        return result

    def test_a_count_is_the_epoch(self):
        self.assertEqual(self._counted(Loop(), (0, 1, 5, 5, 2)), [_epoch(n) for n in (0, 1, 5, 5, 2)])

    def test_a_count_that_continues_where_a_state_was(self):
        loop = Loop()
        loop.progress.jump(Position(3, 2))
        self.assertEqual(self._counted(loop, (3, 4)), [_epoch(3, 2), _epoch(4)])

    def test_a_count_behind_a_state_of_a_complete_epoch(self):
        loop = Loop()
        loop.progress.jump(Position(3, _STEPS))
        self.assertEqual(self._counted(loop, (4, 5)), [_epoch(4), _epoch(5)])

    def test_a_count_from_zero_after_a_state(self):
        loop = Loop()
        loop.progress.jump(Position(3, 2))
        self.assertEqual(self._counted(loop, (0, 1, 2)), [_epoch(3, 2), _epoch(4), _epoch(5)])

    def test_a_count_that_is_told_twice(self):
        loop = Loop()
        loop.progress.jump(Position(3, 2))
        self.assertEqual(self._counted(loop, (0,)), [_epoch(3, 2)])
        loop.progress.count(1)
        self.assertEqual(self._counted(loop, (1,)), [_epoch(4)])

    def test_a_count_from_zero_after_set_epoch(self):
        loop = Loop()
        loop.progress.set_epoch(7)
        self.assertEqual(self._counted(loop, (0, 1)), [_epoch(7), _epoch(8)])

    def test_a_later_state_begins_the_count_anew(self):
        loop = Loop()
        loop.progress.jump(Position(3, 2))
        self._counted(loop, (0, 1))
        loop.progress.jump(Position(9, 1))
        self.assertEqual(self._counted(loop, (2, 3)), [_epoch(9, 1), _epoch(10)])
