"""The commands that documents print to install the wheels, run in fresh environments where an index
offers projects of strangers under the same names, as PyPI does. And the loader without a server that
runs, as a user has it after such a command."""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import dataset
import wheel_file

_BUILT = ("client/python/millrace.whl", "deploy/python/millrace_server.whl")
_DOCUMENTS = ("README.md", "docs/python.md", "docs/client.md", "docs/operations.md",
              "client/python/README.md", "deploy/python/README.md",
              "deploy/python/millrace_server/__init__.py")
_PYTHON = "/usr/bin:/bin"
_STRANGER = "99.0"


def _read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def _commands():
    """{command: document}: lines of code and code within lines."""
    found = {}
    for document in _DOCUMENTS:
        for line, word in re.findall(r"^    (pip3? install [^#\n]*)|`(pip3? install [^`]*)`",
                                     _read(document), re.MULTILINE):
            command = " ".join((line or word).split())
            if "millrace" in command:
                found.setdefault(command, document)
    return found


class Install(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(dir="/tmp")
        cls.addClassCleanup(folder.cleanup)
        cls.work = folder.name
        cls.dist = os.path.join(cls.work, "clone", "dist")
        os.makedirs(cls.dist)
        cls.versions = {}
        for built in _BUILT:
            name = wheel_file.name_of(built)
            shutil.copyfile(built, os.path.join(cls.dist, name))
            package, version = name.split("-")[:2]
            cls.versions[package.replace("_", "-")] = version
        cls.strangers = os.path.join(cls.work, "index")
        os.mkdir(cls.strangers)
        for package in ("millrace", "millrace_server"):
            path = os.path.join(cls.strangers, wheel_file.Wheel.file_name(package, _STRANGER,
                                                                         "py3-none-any"))
            wheel = wheel_file.Wheel(path, package, _STRANGER, "py3-none-any")
            wheel.add(f"{package}/__init__.py", b"raise SystemExit('a package of strangers')\n")
            wheel.finish(["Summary: of strangers", "Provides-Extra: server"], "text", {})

    def _environment(self):
        """The folder of a new environment, with a `pip` of its own."""
        folder = tempfile.mkdtemp(dir=self.work)
        _checked([sys.executable, "-m", "venv", "--without-pip", folder])
        pip = os.path.join(folder, "bin", "pip")  # Debian's Python brings none into environments
        with open(pip, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nexec {sys.executable} -m pip --python {folder}/bin/python "$@"\n')
        os.chmod(pip, 0o755)
        return folder

    def _install(self, environment, command):
        """Runs the command as a user does, beside dist/ or in it. Nothing but the strangers' index."""
        variables = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
        variables.update(PATH=f"{environment}/bin:{_PYTHON}", PIP_NO_INDEX="1", PIP_NO_CACHE_DIR="1",
                         PIP_FIND_LINKS=self.strangers, PIP_DISABLE_PIP_VERSION_CHECK="1")
        _checked(["bash", "-c", command], env=variables,
                 cwd=os.path.dirname(self.dist) if "dist/" in command else self.dist)
        return self._installed(environment)

    @staticmethod
    def _installed(environment):
        """{project: version}."""
        names = glob.glob(f"{environment}/lib/python3*/site-packages/*.dist-info")
        return {project.replace("_", "-"): version for project, version in
                (os.path.basename(name).removesuffix(".dist-info").split("-") for name in names)}

    def test_every_command_of_the_documents_installs_our_wheels(self):
        commands = _commands()
        self.assertGreaterEqual(len(commands), 4, commands)
        for command, document in commands.items():
            with self.subTest(command, document=document):
                wanted = {project for project, word in
                          (("millrace", r"\bmillrace-\*"), ("millrace-server", r"\bmillrace_server-"))
                          if re.search(word, command)}
                self.assertTrue(wanted, "the command names no file of ours")
                environment = self._environment()
                self.assertEqual(self._install(environment, command),
                                 {project: self.versions[project] for project in wanted})
                shutil.rmtree(environment)

    def test_the_names_install_packages_of_strangers(self):
        # So the test above can fail, and the documents say it for a reason.
        for command in ("pip install millrace", 'pip install "millrace[server]" --find-links=dist/',
                        "pip install millrace-server --find-links=dist/"):
            with self.subTest(command):
                environment = self._environment()
                self.assertIn(_STRANGER, self._install(environment, command).values())
                shutil.rmtree(environment)

    def test_the_extra_is_satisfied_by_the_file_beside_it(self):
        (client,) = glob.glob(f"{self.dist}/millrace-*.whl")
        self.assertEqual(self._install(
            self._environment(),
            f"pip install 'dist/{os.path.basename(client)}[server]' dist/millrace_server-*.whl"),
            self.versions)

    def test_a_loader_of_data_of_this_machine_after_the_command_that_its_error_prints(self):
        environment = self._environment()
        self._install(environment, "pip install dist/millrace-*.whl")
        folder = os.path.join(self.work, "data")
        os.mkdir(folder)
        run_dir = tempfile.mkdtemp(prefix="mr", dir="/tmp")  # short: a socket's path has 107 bytes
        self.addCleanup(shutil.rmtree, run_dir)
        script = ("import sys, millrace\n"
                  "loader = millrace.Loader(sys.argv[1], pipeline='mnist', batch_size=500,\n"
                  "                         tensor_type='dlpack')\n"
                  "try: print(len(list(loader)))\n"
                  "except millrace.NotFoundError as error: print(error)\n")

        def count(uri):
            return _checked([f"{environment}/bin/python", "-c", script, uri],
                            env={"PATH": "/nowhere", "MILLRACE_RUN_DIR": run_dir,
                                 "MILLRACE_SERVER_FLAGS": "--lease_timeout=1s"}).stdout

        said = count(f"lmdb:{folder}/digits.lmdb")
        found = re.search(r"`(pip install [^`]+)`", said)
        self.assertTrue(found, said)
        self.assertIn(self.dist, found[1])
        self.assertEqual(self._install(environment, found[1]), self.versions)
        dataset.write_digits(os.path.join(folder, "digits"))
        _checked([f"{environment}/bin/millrace-data", "pack", "--format=idx", "--split=train",
                  f"--input={folder}/digits", f"--output=lmdb:{folder}/digits.lmdb"])
        self.assertEqual(count(f"lmdb:{folder}/digits.lmdb"), "41\n")


def _checked(command, **options):
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                            check=False, **options)
    if result.returncode != 0:
        raise AssertionError(f"{command}: {result.stdout}{result.stderr}")
    return result
