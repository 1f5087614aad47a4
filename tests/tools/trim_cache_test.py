"""The disk cache stays below its size, and what was used last stays."""

import os
import tempfile
import unittest

import trim_cache


class Trim(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        for age, name in enumerate(["newest", "middle", "oldest"]):
            path = os.path.join(self.root, "ac" if age % 2 else "cas", name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(b"x" * 1000)
            os.utime(path, (1e9 - age, 1e9 - age))

    def names(self):
        return sorted(n for _, _, names in os.walk(self.root) for n in names)

    def test_the_oldest_go_first(self):
        self.assertEqual(trim_cache.trim(self.root, 2000), (2000, 1))
        self.assertEqual(self.names(), ["middle", "newest"])

    def test_a_cache_within_its_size_is_left_alone(self):
        self.assertEqual(trim_cache.trim(self.root, 3000), (3000, 0))
        self.assertEqual(len(self.names()), 3)


if __name__ == "__main__":
    unittest.main()
