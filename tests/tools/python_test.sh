#!/usr/bin/env bash
# Starts the runner of python_test.bzl; the current folder is the workspace's
# runfiles.
exec python3 -B tests/tools/python_test_main.py "$@"
