"""Runs the tests of a CMake build that carry a label under Valgrind's memcheck, each in a process of its own.

A test passes if it ends as CTest expects and memcheck finds no error and no definite leak; 77 is a skip. CTest's own
`-T memcheck` ends with success whatever it finds. Exit status: 0 all passed, 1 one did not, or none was selected.
"""
import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import time

VALGRIND = ["valgrind", "--quiet", "--error-exitcode=99", "--leak-check=full", "--errors-for-leak-kinds=definite",
            "--child-silent-after-fork=no", "--num-callers=30",
            "--suppressions=" + os.path.join(os.path.dirname(os.path.abspath(__file__)), "memcheck.supp")]
SKIPPED = 77
LIMIT = 900  # seconds; unit.replay_config takes about 350


def load_tests(build, label, label_exclude):
    out = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True, stdout=subprocess.PIPE)
    for test in json.loads(out.stdout)["tests"]:
        properties = {p["name"]: p["value"] for p in test.get("properties", [])}
        labels = properties.get("LABELS", [])
        if any(re.search(label, x) for x in labels) and not any(re.search(label_exclude, x) for x in labels):
            yield test["name"], test.get("command"), properties


def run_test(name, command, properties, logs):
    environment = dict(os.environ, **dict(e.split("=", 1) for e in properties.get("ENVIRONMENT", [])))
    begin = time.monotonic()
    log = os.path.join(logs, re.sub(r"[^\w.-]", "_", name) + ".log")
    status = None
    if command:
        with open(log, "wb") as output:
            try:
                status = subprocess.run(VALGRIND + command, cwd=properties.get("WORKING_DIRECTORY"), env=environment,
                                        stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                        timeout=LIMIT).returncode
            except subprocess.TimeoutExpired:
                status = f"more than {LIMIT} s"
    return name, status, time.monotonic() - begin, log


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build")
    parser.add_argument("--label", required=True)
    parser.add_argument("--label-exclude", default="^$")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--logs", required=True)
    parser.add_argument("--counts", help="append a line `passed failed skipped` to this file")
    arguments = parser.parse_args()
    os.makedirs(arguments.logs, exist_ok=True)
    tests = list(load_tests(arguments.build, arguments.label, arguments.label_exclude))
    tests.sort(key=lambda test: -float(test[2].get("COST", 0)))  # as CTest does: long ones first
    passed = failed = skipped = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for name, status, seconds, log in pool.map(lambda t: run_test(*t, arguments.logs), tests):
            passed += status == 0
            skipped += status == SKIPPED
            failed += status not in (0, SKIPPED)
            print(f"{name}: {'passed' if status == 0 else f'ended with {status}, see {log}'} ({seconds:.1f} s)", flush=True)
            if status not in (0, SKIPPED) and os.path.exists(log):
                with open(log, errors="replace") as f:
                    sys.stdout.writelines(f.readlines()[-60:])
    print(f"memcheck: {passed} passed, {failed} failed, {skipped} skipped")
    if arguments.counts:
        with open(arguments.counts, "a", encoding="ascii") as f:
            f.write(f"{passed} {failed} {skipped}\n")
    return 0 if passed and not failed else 1


sys.exit(main())
