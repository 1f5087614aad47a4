"""tools/frameworks_run/samples.py: how tools/python-frameworks counts samples."""

import unittest

import samples

_EPOCH = ["a", "b", "c", "d"]


class Samples(unittest.TestCase):

    def test_every_sample_once_an_epoch(self):
        parts = [[["a", "b"], ["c", "d"]], [["d", "c"], ["b", "a"]]]
        self.assertEqual(samples.complaint(parts, _EPOCH, 2), "")

    def test_what_is_wrong_is_counted(self):
        for parts, epochs, expected in (
                ([[["a", "b", "c"]]], 1, "0 samples were used more and 1 less"),
                ([[_EPOCH + ["a"]]], 1, "1 samples were used more and 0 less"),
                ([[["a", "a", "b", "b"]], [["c"], ["d"]]], 1, "2 samples were used more and 0 less"),
                ([[_EPOCH]], 2, "0 samples were used more and 4 less"),
                ([[_EPOCH + ["e"]]], 1, "1 rows that are no sample")):
            self.assertIn(expected, samples.complaint(parts, _EPOCH, epochs))

    def test_equal_samples_count_together(self):
        epoch = [str(n) for n in range(50)] + ["7"]
        self.assertEqual(samples.complaint([[epoch + epoch]], epoch, 2), "")
        self.assertIn("0 samples were used more and 1 less", samples.complaint([[epoch[:-1]]], epoch, 1))

    def test_samples_that_do_not_differ_prove_nothing(self):
        self.assertIn("of 3 samples, only 2 differ", samples.complaint([], ["a", "a", "b"], 1))

    def test_order_of_each_rank(self):
        whole = [["a", "b"], ["c", "d"]]
        self.assertEqual(samples.difference([[["a"], ["c", "d"]], [["b"], []]], whole), "")
        self.assertIn("rank 1 had 2 samples and not 2, or others from number 0",
                      samples.difference([[["a", "b"], ["d", "c"]]], whole))
        self.assertIn("rank 0 had 1 samples and not 2", samples.difference([[["a"], ["c"]]], whole))
