# SPDX-License-Identifier: Apache-2.0
"""Prints the views of a file of PyTorch's profiler in TensorBoard, as JSON."""

import json
import pathlib
import sys

from torch_tb_profiler import consts
from torch_tb_profiler.profiler.data import RunProfileData
from torch_tb_profiler.profiler.run_generator import RunGenerator

path = pathlib.Path(sys.argv[1])
worker, span = consts.WORKER_PATTERN.match(path.name).group(1, 2)
data = RunProfileData.parse(worker, span, str(path), str(path.parent))
profile = RunGenerator(worker, span, data).generate_run_profile()
nothing = {"data": {"columns": [], "rows": []}}
kernels = (profile.kernel_table or nothing)["data"]
columns = [column["name"] for column in kernels["columns"]]
print(json.dumps({
    "views": [view.display_name for view in profile.views],
    "kernels": [[row[columns.index(title)] for title in ("Name", "Calls", "Total Duration (us)")] for row in kernels["rows"]],
    "operators": [[operator.name, operator.calls] for operator in data.op_list_groupby_name],
}))
