"""Test cases with the installed wheel, made once for a class: alone, or with a server."""

import os
import shutil
import tempfile
import unittest

import installed


class PackageCase(unittest.TestCase):
    package_type = installed.Package

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(dir="/tmp")
        cls.addClassCleanup(folder.cleanup)
        cls.work = folder.name
        cls.package = cls.package_type(cls.work)

    def of_this_machine(self, lease="1s"):
        """Variables of a script whose loaders start a server of this machine, which ends so long after it."""
        # Short, for a socket's path has at most 107 bytes.
        folder = tempfile.mkdtemp(prefix="mr", dir="/tmp")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        return {"MILLRACE_RUN_DIR": folder, "MILLRACE_SERVER_FLAGS": f"--lease_timeout={lease}",
                "MILLRACE_SERVER": os.path.abspath("server/millrace-server")}


class Case(PackageCase):
    packed = False  # whether the server has the packed digits instead of synthetic data

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = installed.Server(cls.work, cls.packed)
        cls.addClassCleanup(cls.server.stop)

    def output_of(self, code, *arguments, **options):
        """What the script prints; it must succeed."""
        result = self.package.run(code, self.server.address, *arguments, **options)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout
