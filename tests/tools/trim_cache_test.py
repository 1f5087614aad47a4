"""The disk cache stays below its size, and what was used last stays. Where the
disk is nearly full, the cache gives up files only if that makes enough room."""

import os
import subprocess
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


class WantRoom(unittest.TestCase):
    """want_room of tools/common.sh, with programs that stand for df and du."""

    def run_it(self, free_gib, cache_mib):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        cache = os.path.join(self.root, "cache", "millrace", "bazel")
        os.makedirs(cache)
        self.entry = os.path.join(cache, "entry")
        with open(self.entry, "wb") as file:
            file.truncate(cache_mib << 20)  # sparse
        gone = os.path.join(self.root, "cache", "bazel", "_bazel_me", "abc")
        os.makedirs(gone)
        with open(os.path.join(gone, "DO_NOT_BUILD_HERE"), "w", encoding="utf-8") as file:
            file.write(os.path.join(self.root, "no", "such", "checkout"))
        programs = os.path.join(self.root, "programs")
        os.makedirs(programs)
        for name, output in (("df", f"Avail\n  {free_gib}G"), ("du", f"{cache_mib}\t{cache}"),
                             ("id", "me")):
            path = os.path.join(programs, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"#!/bin/sh\nprintf '{output}\\n'\n")
            os.chmod(path, 0o755)
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", "source tools/common.sh; want_room 30"],
            env={**os.environ, "HOME": self.root,
                 "XDG_CACHE_HOME": os.path.join(self.root, "cache"),
                 "PATH": programs + ":" + os.environ["PATH"]},
            capture_output=True, text=True, check=True).stdout

    def test_nothing_happens_where_there_is_room(self):
        self.assertEqual(self.run_it(30, 20000), "")
        self.assertTrue(os.path.exists(self.entry))

    def test_the_cache_gives_what_is_missing(self):
        said = self.run_it(25, 20000)
        self.assertIn("removed 1 files", said)
        self.assertFalse(os.path.exists(self.entry))

    def test_a_cache_that_cannot_give_enough_is_kept(self):
        said = self.run_it(10, 20000)
        self.assertIn("10 GiB are free", said)
        self.assertIn("may need 30 GiB", said)
        self.assertIn("_bazel_me/abc", said)
        self.assertTrue(os.path.exists(self.entry))


if __name__ == "__main__":
    unittest.main()
