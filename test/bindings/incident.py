# SPDX-License-Identifier: Apache-2.0
"""For the tests of the bindings: waits, and checks of an incident. The command line reads it, and its rows match the served requests."""

import json
import os
import subprocess
import time


def wait_until(condition):
    """The first true value of the condition; fails after a minute."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError("waited for a minute")


def run_pitot(*arguments):
    """The answer of `pitot ... --json`."""
    done = subprocess.run([os.environ["PITOT_PROGRAM"], *arguments, "--json"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"pitot {' '.join(arguments)}: status {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def perfetto_of(directory):
    """The bytes of the Perfetto trace of an incident."""
    return subprocess.run([os.environ["PITOT_PROGRAM"], "convert", os.path.join(directory, "dump.pitot"), "-o", "-"],
                          capture_output=True, check=True).stdout


def requests_of(directory):
    """The requests of an incident, in the order in which they began."""
    return run_pitot("requests", directory, "--sort", "begin", "--limit", "0")["requests"]


def check_served(test, directory, process):
    """The incident of server.c and of its equivalent in Python: four requests, one batch, one firing."""
    info = run_pitot("info", directory)
    test.assertTrue(info["complete"])
    test.assertEqual(info["process"]["name"], process)
    test.assertEqual([firing["cause"] for firing in info["firings"]], ["latency /slow"])
    test.assertEqual({thread["name"] for thread in info["threads"]} & {"handler", "executor"}, {"handler", "executor"})
    test.assertEqual(info["counts"]["batches"], 1)
    test.assertEqual(info["counts"]["handoffs"], 4)
    test.assertEqual(info["losses"], [])

    requests = requests_of(directory)
    test.assertEqual([request["route"] for request in requests], ["/infer", "/infer", "/infer", "/slow"])
    test.assertEqual([request["outcome"] for request in requests], ["ok", "ok", "failed", "ok"])
    test.assertEqual(requests[3]["id"], info["firings"][0]["request"])
    for request in requests:
        test.assertTrue(request["complete"])
        test.assertEqual(request["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736")
        test.assertEqual([stage["name"] for stage in request["stages"]], ["decode", "execute", "respond"])
        test.assertEqual(request["labels"], {"model": "resnet50"})
        test.assertEqual(request["sizes"], {"pixels": 50176.0})
        test.assertGreater(request["queue_ms"], 0)
        test.assertEqual(request["batch_ids"], requests[0]["batch_ids"])
    test.assertEqual(len(requests[0]["batch_ids"]), 1)

    # Names made at run time, and the texts recorded with them.
    trace = perfetto_of(directory)
    for text in (b"libjpeg", b"forward", b"queue depth", b"cache miss", b"key 17", b"executor's thread", b"jobs", b"full"):
        test.assertIn(text, trace)
