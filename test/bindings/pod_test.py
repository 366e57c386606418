#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The YAML of docs/guide/watch.md: what it names exists, and its pod works, as two processes in namespaces.

Environment: PITOT_LIBRARY, PITOT_PROGRAM
"""

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

try:
    import yaml
except ImportError:
    yaml = None

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

SERVER = """
import os, signal, pitot
recorder = pitot.start(from_environment=True)
assert recorder.status, recorder.status
request = pitot.Request("/generate")
request.stage("decode")
print("ready", flush=True)
signal.pause()
"""


def text_of(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def manifests():
    return [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", text_of("docs", "guide", "watch.md"), re.S)]


def parts_of(pod):
    """The server, the watcher, and the volumes by their names."""
    server, watcher = pod["spec"]["containers"]
    return server, watcher, {volume["name"]: volume for volume in pod["spec"]["volumes"]}


def environment_of(container):
    return {variable["name"]: variable["value"] for variable in container["env"]}


def is_below(path, mount):
    return path.startswith(mount["mountPath"] + "/")


def namespaces(*command):
    """The command in a mount and a process namespace, as root there."""
    return ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", *command]


def run_pod(folder):
    """In its namespaces: both containers of the pod, with its volumes below the folder. Prints what the watcher tells."""
    pod = manifests()[1]
    server, watcher, volumes = parts_of(pod)
    for volume in volumes.values():
        path = os.path.join(folder, volume["name"])
        os.mkdir(path)
        if volume["emptyDir"].get("medium") == "Memory":
            size = volume["emptyDir"]["sizeLimit"].replace("Mi", "m")
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", path], check=True)
        os.chmod(path, 0o777)  # as Kubernetes makes it

    def begin(container, command, **variables):
        mounts = {mount["mountPath"]: os.path.join(folder, mount["name"]) for mount in container["volumeMounts"]}

        def here(text):
            return re.sub("^/[^/]*", lambda match: mounts.get(match[0], match[0]), text)
        environment = {**os.environ, **{name: here(value) for name, value in variables.items()}}
        return subprocess.Popen([here(word) for word in command], env=environment, stdout=subprocess.PIPE, text=True)

    sidecar = begin(watcher, [os.environ["PITOT_PROGRAM"], *watcher["command"][1:]])
    serving = begin(server, [sys.executable, "-c", SERVER], **environment_of(server))
    assert serving.stdout.readline() == "ready\n"

    def next_incident():
        for line in sidecar.stdout:
            print(line, end="")
            if "its last seconds: " in line:
                return line.split("its last seconds: ")[1].rstrip()
        raise AssertionError("the watcher has ended")
    serving.send_signal(signal.SIGSTOP)
    assert os.path.exists(os.path.join(next_incident(), "threads.txt"))
    serving.kill()
    sys.stdout.write(text_of(next_incident(), "report.txt"))


@unittest.skipUnless(yaml, "there is no PyYAML (Debian: python3-yaml)")
class Pod(unittest.TestCase):
    def test_its_commands_are_accepted(self):
        probe, pod = manifests()
        watcher = parts_of(pod)[1]
        with tempfile.TemporaryDirectory() as folder:
            for command, more in ((probe["livenessProbe"]["exec"]["command"], []), (watcher["command"], ["--once"])):
                self.assertEqual(command[0], "pitot")
                here = [folder if word[0] == "/" else word for word in command[1:]]
                done = subprocess.run([os.environ["PITOT_PROGRAM"], *here, *more], capture_output=True, text=True, check=False)
                self.assertNotEqual(done.returncode, 2, shlex.join(command) + ": " + done.stderr)  # of wrong usage

    def test_both_containers_have_the_folders_that_they_name(self):
        pod = manifests()[1]
        self.assertTrue(pod["spec"]["shareProcessNamespace"])
        server, watcher, volumes = parts_of(pod)
        environment = environment_of(server)
        boxes, incidents = environment["PITOT_BLACK_BOX_DIRECTORY"], environment["PITOT_INCIDENT_DIRECTORY"]
        self.assertEqual(watcher["command"][watcher["command"].index("--dir") + 1], boxes)
        self.assertEqual(server["volumeMounts"], watcher["volumeMounts"])
        for path, medium in ((boxes, "Memory"), (incidents, None)):
            mounts = [mount for mount in server["volumeMounts"] if is_below(path, mount)]
            self.assertEqual([volumes[mount["name"]]["emptyDir"].get("medium") for mount in mounts], [medium])

    def test_the_library_reads_its_variables(self):
        server = parts_of(manifests()[1])[0]
        for name in environment_of(server):
            self.assertIn(f'"{name}"', text_of("lib", "session", "options.cc"))

    def test_a_server_that_hangs_and_then_dies_is_told_of_by_the_sidecar(self):
        if subprocess.run(namespaces("true"), stderr=subprocess.DEVNULL, check=False).returncode != 0:
            self.skipTest("unshare may not make namespaces here")
        environment = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "bindings", "python")}
        with tempfile.TemporaryDirectory() as folder:
            pod = subprocess.Popen(namespaces(sys.executable, __file__, "--pod", folder), env=environment,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            late = threading.Timer(120, pod.kill)
            late.start()
            output = pod.communicate()[0]
            late.cancel()
        self.assertEqual(pod.returncode, 0, output)
        self.assertIn("is stopped", output)
        self.assertIn("ended without a word", output)
        self.assertIn("/generate", output)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--pod"]:
        run_pod(sys.argv[2])
    else:
        unittest.main()
