"""A test case with the installed wheel and a server, made once for a class."""

import tempfile
import unittest

import installed


class Case(unittest.TestCase):
    packed = False  # whether the server has the packed digits instead of synthetic data

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(dir="/tmp")
        cls.addClassCleanup(folder.cleanup)
        cls.work = folder.name
        cls.package = installed.Package(cls.work)
        cls.server = installed.Server(cls.work, cls.packed)
        cls.addClassCleanup(cls.server.stop)

    def output_of(self, code, *arguments, **options):
        """What the script prints; it must succeed."""
        result = self.package.run(code, self.server.address, *arguments, **options)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout
