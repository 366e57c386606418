# SPDX-License-Identifier: Apache-2.0
"""Prints the contents of an XSpace by XProf, as JSON. XProf is called as a library: as a server it listens on all interfaces."""

import collections
import json
import sys

from xprof.convert import raw_to_tool_data


def ask(tool):
    data, _ = raw_to_tool_data.xspace_to_tool_data([sys.argv[1]], tool, {})
    return json.loads(data)


kernels = ask("kernel_stats")
titles = [column["id"] for column in kernels["cols"]]
table = [[cell["v"] for cell in row["c"]] for row in kernels["rows"]]
sums = collections.defaultdict(lambda: [0, 0.0])
for row in table:  # one for each launch shape and operator
    of = sums[row[titles.index("kernel_name")]]
    of[0] += int(row[titles.index("occurrences")])
    of[1] += row[titles.index("total_duration_us")]

events = ask("trace_viewer")["traceEvents"]
planes = {e["pid"]: e["args"]["name"] for e in events if e.get("name") == "process_name"}
lines = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e.get("name") == "thread_name"}
work = collections.Counter()
for event in events:
    plane, line = planes.get(event.get("pid"), ""), lines.get((event.get("pid"), event.get("tid")), "")
    if event.get("ph") == "X" and plane.startswith("/device:GPU:") and line.startswith("Stream #"):
        work[plane.removeprefix("/device:GPU:"), line.removeprefix("Stream #").split("(")[0]] += 1
steps = next(table for table in ask("overview_page") if table["cols"] and table["cols"][0]["id"] == "stepnum")
print(json.dumps({
    "kernels": [[name, count, us] for name, (count, us) in sums.items()],
    "lines": [[gpu, stream, count] for (gpu, stream), count in work.items()],
    "steps": len(steps["rows"]),
}))
