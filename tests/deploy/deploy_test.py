"""The files in deploy/ are accepted by the tools that read them and agree with
each other. What only a container engine or a cluster can show is not shown.
"""

import glob
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

_SITE = os.path.abspath("external/deploy_checkers/site")
if not os.path.isdir(_SITE):
    _SITE = os.path.abspath("../deploy_checkers/site")
sys.path.insert(0, _SITE)

import kubernetes_validate  # noqa: E402  (its folder is put on the path above)
import yaml  # noqa: E402

# The oldest Kubernetes that has everything which the manifests use, and the
# newest whose schemas are at hand.
_KUBERNETES = ["1.27", "1.37"]


def _read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def _documents(path):
    return [d for d in yaml.safe_load_all(_read(path)) if d is not None]


def _all_documents():
    return [d for path in sorted(glob.glob("deploy/kubernetes/*.yaml")) for d in _documents(path)]


def _one(kind, name):
    found = [d for d in _all_documents() if d["kind"] == kind and d["metadata"]["name"] == name]
    assert len(found) == 1, f"{len(found)} documents of kind {kind} named {name}"
    return found[0]


def _grace_ms(config_text):
    return int(re.search(r"^\s*shutdown_grace_ms:\s*(\d+)", config_text, re.MULTILINE).group(1))


class ContainerFiles(unittest.TestCase):

    def hadolint(self, *arguments, text=None):
        with tempfile.TemporaryDirectory() as folder:
            # Runfiles need not be executable.
            program = os.path.join(folder, "hadolint")
            shutil.copy(os.path.join(_SITE, "bin", "hadolint"), program)
            os.chmod(program, os.stat(program).st_mode | stat.S_IXUSR)
            return subprocess.run([program, "--no-color", *arguments], input=text, text=True,
                                  capture_output=True, check=False)

    def test_hadolint_finds_nothing(self):
        files = sorted(glob.glob("deploy/*.Dockerfile"))
        self.assertEqual(len(files), 2)
        for path in files:
            result = self.hadolint(path)
            self.assertEqual((result.stdout, result.returncode), ("", 0), path + result.stderr)

    def test_hadolint_would_find_something(self):
        result = self.hadolint("-", text="FROM debian\nRUN cd /tmp && sudo apt-get install x\n")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("DL3006", result.stdout)

    def test_programs_do_not_run_as_root(self):
        for path in glob.glob("deploy/*.Dockerfile"):
            users = re.findall(r"^USER\s+(\S+)", _read(path), re.MULTILINE)
            self.assertEqual(users, ["10001:10001"], path)

    def test_copied_files_exist(self):
        for path in glob.glob("deploy/*.Dockerfile"):
            for sources in re.findall(r"^COPY (?!--from)(.+) \S+$", _read(path), re.MULTILINE):
                for source in sources.split():
                    self.assertTrue(os.path.exists(source), f"{path} copies {source}")


class Kubernetes(unittest.TestCase):

    def test_manifests_fit_the_schemas(self):
        documents = _all_documents()
        self.assertGreaterEqual(len(documents), 6)
        for document in documents:
            for version in _KUBERNETES:
                with self.subTest(kind=document["kind"], name=document["metadata"]["name"],
                                  version=version):
                    kubernetes_validate.validate(document, version, strict=True)

    def test_a_wrong_manifest_is_refused(self):
        deployment = _one("Deployment", "millrace-server")
        deployment["spec"]["replicass"] = 2
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(deployment, _KUBERNETES[-1], strict=True)

    def test_selectors_find_the_pods(self):
        for kind, name in (("Deployment", "millrace-server"), ("Job", "millrace-train")):
            labels = _one(kind, name)["spec"]["template"]["metadata"]["labels"]
            selector = _one("Service", name)["spec"]["selector"]
            self.assertTrue(selector.items() <= labels.items())
        server = _one("Deployment", "millrace-server")["spec"]
        self.assertEqual(server["selector"]["matchLabels"],
                         _one("PodDisruptionBudget", "millrace-server")["spec"]["selector"]["matchLabels"])

    def test_probes_ask_the_port_that_the_server_listens_on(self):
        container = _one("Deployment", "millrace-server")["spec"]["template"]["spec"]["containers"][0]
        port = container["ports"][0]["containerPort"]
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            self.assertEqual(container[probe]["grpc"]["port"], port)
        config = _one("ConfigMap", "millrace-server")["data"]["server.textproto"]
        self.assertIn(f'listen: "0.0.0.0:{port}"', config)
        self.assertEqual(_one("Service", "millrace-server")["spec"]["ports"][0]["port"], port)

    def test_the_job_is_a_world_of_its_pods(self):
        job = _one("Job", "millrace-train")["spec"]
        container = job["template"]["spec"]["containers"][0]
        env = {e["name"]: e.get("value") for e in container["env"]}
        self.assertEqual(set(env), {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"})
        self.assertEqual(int(env["WORLD_SIZE"]), job["completions"])
        self.assertEqual(job["parallelism"], job["completions"])
        self.assertEqual(job["completionMode"], "Indexed")
        host, _, domain = env["MASTER_ADDR"].partition(".")
        self.assertEqual(host, "millrace-train-0")
        self.assertEqual(domain, job["template"]["spec"]["subdomain"])
        self.assertTrue(_one("Service", domain)["spec"]["publishNotReadyAddresses"])
        arguments = dict(a[2:].split("=", 1) for a in container["args"])
        host, _, port = arguments["endpoint"].partition(":")
        self.assertEqual(int(port), _one("Service", host)["spec"]["ports"][0]["port"])
        self.assertEqual(int(arguments["batch_size"]) % job["completions"], 0)

    def test_a_restarted_job_goes_on_from_its_checkpoint(self):
        job = _one("Job", "millrace-train")["spec"]
        pod = job["template"]["spec"]
        container = pod["containers"][0]
        arguments = dict(a[2:].split("=", 1) for a in container["args"])
        self.assertEqual(arguments["resume"], "auto")
        self.assertGreater(int(arguments["checkpoint_every"]), 0)
        # On a volume that outlives the pod and may be written.
        folder = os.path.dirname(arguments["checkpoint"])
        mount = next(m for m in container["volumeMounts"] if m["mountPath"] == folder)
        self.assertFalse(mount.get("readOnly", False))
        volume = next(v for v in pod["volumes"] if v["name"] == mount["name"])
        self.assertFalse(volume["persistentVolumeClaim"].get("readOnly", False))
        # Each failure of one rank ends the pods of all.
        self.assertGreaterEqual(job["backoffLimit"], 5 * job["completions"])
        # What the trainer's exit code says no restart mends.
        rule = next(r for r in job["podFailurePolicy"]["rules"] if r["action"] == "FailJob")
        self.assertEqual(rule["onExitCodes"],
                         {"containerName": container["name"], "operator": "In", "values": [2]})
        self.assertEqual(pod["restartPolicy"], "Never")

    def test_nothing_is_killed_before_its_grace_is_over(self):
        config = _one("ConfigMap", "millrace-server")["data"]["server.textproto"]
        pod = _one("Deployment", "millrace-server")["spec"]["template"]["spec"]
        self.assertGreater(pod["terminationGracePeriodSeconds"] * 1000, _grace_ms(config))

    def test_every_container_is_confined(self):
        for kind, name in (("Deployment", "millrace-server"), ("Job", "millrace-train")):
            pod = _one(kind, name)["spec"]["template"]["spec"]
            self.assertTrue(pod["securityContext"]["runAsNonRoot"])
            for container in pod["containers"]:
                self.assertFalse(container["securityContext"]["allowPrivilegeEscalation"])
                self.assertTrue(container["securityContext"]["readOnlyRootFilesystem"])
                self.assertIn("memory", container["resources"]["limits"])


class ServerConfigurations(unittest.TestCase):
    """The server itself reads every configuration that is shown."""

    def parse(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "server.textproto")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            return subprocess.run(["server/millrace-server", f"--config={path}", "--parse_config"],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  check=False)

    def test_the_server_accepts_them(self):
        texts = {"deploy/server.textproto": _read("deploy/server.textproto")}
        for document in _all_documents():
            if document["kind"] == "ConfigMap":
                texts.update(document["data"])
        self.assertEqual(len(texts), 2)
        for name, text in texts.items():
            result = self.parse(text)
            self.assertEqual(result.returncode, 0, name + ": " + result.stderr)
            self.assertIn("0.0.0.0:7001", result.stdout)
            self.assertRegex(result.stdout, r"shutdown grace +20s")

    def test_the_server_would_refuse_a_mistake(self):
        result = self.parse('listen: "0.0.0.0:7001"\nthread: 4\n')
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("thread", result.stderr)


class Compose(unittest.TestCase):

    def test_what_it_names_exists(self):
        services = _documents("deploy/compose.yaml")[0]["services"]
        self.assertEqual(set(services), {"server", "train"})
        for service in services.values():
            self.assertTrue(os.path.exists(service["build"]["dockerfile"]))
            self.assertEqual(service["build"]["context"], "..")
        mounts = [v.split(":")[0] for v in services["server"]["volumes"] if v.startswith("./")]
        for mount in mounts:
            self.assertTrue(os.path.exists(os.path.join("deploy", mount)))
        self.assertIn("--endpoint=server:7001", services["train"]["command"])
        self.assertGreater(int(services["server"]["stop_grace_period"].rstrip("s")) * 1000,
                           _grace_ms(_read("deploy/server.textproto")))


class Systemd(unittest.TestCase):

    _UNIT = "deploy/systemd/millrace-server.service"

    @unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is not installed")
    def test_systemd_accepts_the_unit(self):
        with tempfile.TemporaryDirectory() as folder:
            unit = os.path.join(folder, "millrace-server.service")
            # The program need not be installed where the test runs.
            with open(unit, "w", encoding="utf-8") as file:
                file.write(_read(self._UNIT).replace("/opt/millrace/millrace-server", "/bin/true"))
            result = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], text=True,
                                    capture_output=True, check=False,
                                    env={**os.environ, "SYSTEMD_LOG_LEVEL": "warning"})
        about_us = [line for line in result.stderr.splitlines() if "millrace" in line]
        self.assertEqual((about_us, result.returncode), ([], 0), result.stderr)

    def test_systemd_waits_longer_than_the_server(self):
        seconds = int(re.search(r"^TimeoutStopSec=(\d+)s", _read(self._UNIT), re.MULTILINE).group(1))
        self.assertGreater(seconds * 1000, _grace_ms(_read("deploy/server.textproto")))


if __name__ == "__main__":
    unittest.main()
