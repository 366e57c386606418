# SPDX-License-Identifier: Apache-2.0
"""Prints the findings of Holistic Trace Analysis in a file of PyTorch's profiler, as JSON."""

import json
import logging
import os
import sys
import warnings

logging.disable(logging.CRITICAL)
warnings.filterwarnings("ignore")
# By default it rounds to microseconds. `pitot analyze --compat hta` does so, too.
if "--breakdown" not in sys.argv:
    os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"
from hta.trace_analysis import TraceAnalysis  # noqa: E402

analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="/")
if "--breakdown" in sys.argv:
    breakdown = analysis.get_temporal_breakdown(visualize=False).to_dict("records")[0]
    print(json.dumps({key.split("_time")[0]: us for key, us in breakdown.items() if key.endswith("(us)")}))
    sys.exit()

trace = analysis.t.get_trace(0)
symbols = analysis.t.symbol_table.get_sym_table()
trace["category"] = [symbols[i] for i in trace["cat"]]
trace["text"] = [symbols[i] for i in trace["name"]]
work = trace[trace["category"].isin(["kernel", "gpu_memcpy", "gpu_memset"])].groupby("text")["dur"].agg(["count", "sum"])
launches = analysis.get_cuda_kernel_launch_stats(visualize=False)[0]
kernel_launches = trace[trace["text"] == "cudaLaunchKernel"]["correlation"].tolist()
launches = launches[launches["correlation"].isin(kernel_launches)]
print(json.dumps({
    "work": [[name, int(row["count"]), float(row["sum"])] for name, row in work.iterrows()],
    "delays": [[int(row["correlation"]), float(row["launch_delay"])] for _, row in launches.iterrows()],
}))
