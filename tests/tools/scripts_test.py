"""The scripts of tools/ answer --help and refuse what they do not know, before
they install, build or fetch anything."""

import os
import subprocess
import tempfile
import unittest

_SCRIPTS = ["setup", "build", "build-wheel", "test", "quickstart", "articles", "bench-adapt",
            "bench-fairness", "bench-folder", "bench-link", "bench-peers", "bench-python",
            "bench-two-servers", "chaos", "check-translations", "check_quickstart", "fuzz",
            "gpu-check", "make-lookup-ptx", "package", "prove-one-process", "python-frameworks"]


def _run(script, *arguments, **environment):
    env = {k: v for k, v in os.environ.items() if k != "HOME"}
    env.update(environment)
    return subprocess.run([os.path.join("tools", script), *arguments], env=env,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


class Scripts(unittest.TestCase):

    def test_help_shows_the_usage(self):
        for script in _SCRIPTS:
            result = _run(script, "--help")
            self.assertEqual(result.returncode, 0, script + result.stderr)
            self.assertIn("tools/" + script, result.stdout)
            self.assertNotIn("set -euo", result.stdout)

    def test_an_unknown_argument_is_named(self):
        for script in _SCRIPTS:
            for argument in ("--frobnicate", "frobnicate"):
                if (script, argument) == ("build", "--frobnicate"):
                    continue  # handed to Bazel
                result = _run(script, argument)
                self.assertNotEqual(result.returncode, 0, script)
                self.assertIn(argument, result.stderr)

    def test_build_knows_only_one_program_to_leave_out(self):
        result = _run("build", "--without=server")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("--without=train", result.stderr)

    def test_quickstart_names_a_data_folder_that_cannot_be(self):
        with tempfile.NamedTemporaryFile() as file:
            result = _run("quickstart", f"--data_dir={file.name}/below")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("--data_dir", result.stderr)

    def test_prove_one_process_names_options_that_cannot_be(self):
        for argument in ("--seconds=0", "--seconds=x", "--with=jax", "--with==1"):
            result = _run("prove-one-process", argument)
            self.assertNotEqual(result.returncode, 0, argument)
            self.assertIn(argument, result.stderr)

    def test_check_translations_names_packages_that_cannot_be(self):
        for argument, part in (("--with=jax", "--with=jax"), ("--with==1", "--with==1"),
                               ("--with=torch==2.10.0", "choose both")):
            result = _run("check-translations", argument)
            self.assertNotEqual(result.returncode, 0, argument)
            self.assertIn(part, result.stderr)

    def test_python_frameworks_names_options_that_cannot_be(self):
        for argument in ("--with=cupy", "--with==1"):
            result = _run("python-frameworks", argument)
            self.assertNotEqual(result.returncode, 0, argument)
            self.assertIn(argument, result.stderr)

    def test_bench_python_names_options_that_cannot_be(self):
        with tempfile.TemporaryDirectory() as folder:
            for program in ("millrace-server", "millrace-data", "millrace"):
                os.symlink("/bin/true", os.path.join(folder, program))
            for arguments in (["--rounds=0"], ["--photos=/does/not/exist"], ["--bin=/does/not/exist"],
                              [f"--bin={folder}", f"--wheels={folder}"]):
                result = _run("bench-python", *arguments)
                self.assertNotEqual(result.returncode, 0, arguments)
                self.assertIn(arguments[-1].split("=")[0], result.stderr)

    def test_articles_names_options_that_cannot_be(self):
        for argument in ("--only=6", "--only=1;3", "--rounds=0", "--rounds=x", "--cores=0",
                         "--bin=/does/not/exist", "--photos=/does/not/exist",
                         "--mnist=/does/not/exist", "--python=/does/not/exist"):
            result = _run("articles", argument)
            self.assertNotEqual(result.returncode, 0, argument)
            self.assertIn(argument.split("=")[0], result.stderr)

    def test_setup_without_apt_says_what_it_needs(self):
        with tempfile.TemporaryDirectory() as folder:
            for tool in ("bash", "env", "dirname", "cat", "getent", "id", "cut", "pwd"):
                os.symlink(os.path.join("/usr/bin", tool), os.path.join(folder, tool))
            result = _run("setup", PATH=folder)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("Debian 12", result.stderr)

    def test_setup_names_packages_that_it_cannot_install(self):
        """Another distribution: apt is there, packages are not."""
        with tempfile.TemporaryDirectory() as folder:
            for tool in os.listdir("/usr/bin"):
                if tool not in ("dpkg-query", "apt-get", "sudo"):
                    os.symlink(os.path.join("/usr/bin", tool), os.path.join(folder, tool))
            for tool, text in (("dpkg-query", "exit 1"), ("apt-get", "echo E: no network; exit 100"),
                               ("sudo", 'exec "$@"')):
                path = os.path.join(folder, tool)
                with open(path, "w", encoding="utf-8") as file:
                    file.write("#!/bin/sh\n" + text + "\n")
                os.chmod(path, 0o755)
            result = _run("setup", PATH=folder)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("bazel-bootstrap", result.stderr + result.stdout)
        self.assertIn("E: no network", result.stderr + result.stdout)


if __name__ == "__main__":
    unittest.main()
