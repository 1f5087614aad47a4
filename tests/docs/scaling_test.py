"""The model of docs/scaling.md: its formulas, and that the page shows what it prints."""

import contextlib
import io
import json
import os
import re
import unittest

import scaling


def _run(*arguments):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = scaling.main(list(arguments))
    return code, out.getvalue()


def _plan(*arguments):
    return json.loads(_run("--json", *arguments)[1])


class Model(unittest.TestCase):

    def test_cores_bind(self):
        # 16 GPUs of 1,000 images need 16,000 / (500 x 0.8) = 40 cores: 3 servers of 16.
        plan, = _plan("--gpus=16", "--gpu_rate=1000", "--core_rate=500", "--busy=0.8",
                      "--server_cores=16", "--image_bytes=100000", "--server_gbit=100",
                      "--stored_bytes=50000", "--node_gpus=8", "--node_gbit=10",
                      "--client_cpu=0.5", "--batch=100", "--window=6", "--core_price=0.1",
                      "--gpu_price=3")
        self.assertEqual(plan["servers"], 3)
        self.assertEqual(plan["limit"], "cores")
        self.assertAlmostEqual(plan["cores_per_gpu"], 2.5)
        self.assertAlmostEqual(plan["storage_bytes_per_second"], 0.8e9)
        # 1.6 GB/s over three links of 12.5 GB/s; 0.8 GB/s into a machine with 1.25.
        self.assertAlmostEqual(plan["server_link_share"], 1.6 / 37.5)
        self.assertAlmostEqual(plan["node_link_share"], 0.64)
        self.assertAlmostEqual(plan["client_cores_per_node"], 0.4)
        self.assertAlmostEqual(plan["client_bytes_per_gpu"], 60e6)
        self.assertAlmostEqual(plan["in_flight_bytes_per_server"], 320e6)
        self.assertAlmostEqual(plan["cost_share"], 0.1)

    def test_links_bind(self):
        # 1.6 GB/s over links of 1.25 GB/s, of which half is planned with.
        plan, = _plan("--gpus=16", "--gpu_rate=1000", "--core_rate=5000", "--busy=0.5",
                      "--image_bytes=100000", "--server_gbit=10")
        self.assertEqual(plan["servers"], 3)
        self.assertEqual(plan["limit"], "links")

    def test_a_training_machine_has_no_more_gpus_than_there_are(self):
        plan, = _plan("--gpus=2", "--gpu_rate=1000", "--image_bytes=100000")
        self.assertAlmostEqual(plan["node_bytes_per_second"], 0.2e9)

    def test_what_cannot_be_is_refused_by_name(self):
        for bad in ("--gpus=0", "--gpus=a", "--gpu_rate=0", "--core_rate=nan", "--busy=1.5",
                    "--window=0", "--batch=1.5", "--frobnicate=1"):
            err = io.StringIO()
            with contextlib.redirect_stderr(err), self.assertRaises(SystemExit) as exit_:
                scaling.main([bad])
            self.assertEqual(exit_.exception.code, 2, bad)
            self.assertIn(bad.split("=", maxsplit=1)[0], err.getvalue())


class Page(unittest.TestCase):

    def test_the_page_shows_what_the_model_prints(self):
        here = os.path.join(os.environ["TEST_SRCDIR"], os.environ["TEST_WORKSPACE"])
        root = os.path.dirname(os.path.realpath(os.path.join(here, "WORKSPACE")))
        with open(os.path.join(root, "docs/scaling.md"), encoding="utf-8") as file:
            page = file.read()
        shown = re.search(r"<!-- scaling: begin -->\n\n(.*?)\n\n?<!-- scaling: end -->", page,
                          re.DOTALL)
        self.assertIsNotNone(shown)
        self.assertEqual(shown.group(1).strip(), _run()[1].strip(),
                         "docs/scaling.md: put in what `python3 tools/scaling.py` prints")


if __name__ == "__main__":
    unittest.main()
