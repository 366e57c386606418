# SPDX-License-Identifier: Apache-2.0
"""Prints what DuckDB, pandas and Arrow find in a folder of Parquet files, as JSON."""

import json
import pathlib
import sys

import duckdb
import pandas
import pyarrow.parquet

folder = pathlib.Path(sys.argv[1])
connection = duckdb.connect()
for path in folder.glob("*.parquet"):
    connection.sql(f"create view {path.stem} as select * from read_parquet('{path}')")


def rows(query):
    return [list(row) for row in connection.sql(query).fetchall()]


def arrow_rows(path):
    table = pyarrow.parquet.read_table(path)
    return [tuple(row.values()) for row in table.to_pylist()]


different = []
for path in sorted(folder.glob("*.parquet")):
    if connection.sql(f"select * from {path.stem}").fetchall() != arrow_rows(path):
        different.append(path.stem)

work = pandas.read_parquet(folder / "gpu_work.parquet")
by_name = work[work["kind"] != "span"].groupby("name")["window_ns"].sum()
print(json.dumps({
    "different": different,
    "kernels": rows("select name, sum(window_ns)::bigint from gpu_work where kind <> 'span' group by name"),
    "kernels_pandas": [[name, int(ns)] for name, ns in by_name.items()],
    "scopes": rows("select name, sum(self_ns)::bigint from events group by name having sum(self_ns) > 0"),
    "requests": rows("select coalesce(host_id, id) || ' ' || route, gpu_ns from requests where gpu_ns > 0"),
    "work": rows("select begin_ns, duration_ns, coalesce(bytes, 0), coalesce(graph, 0), coalesce(scope_path, '') from gpu_work"),
    "calls": rows("select coalesce(tid, 0), begin_ns, coalesce(duration_ns, -1), calls.name "
                  "from calls left join threads using (thread_id)"),
    "caused": rows("select calls.name, calls.begin_ns, gpu_work.begin_ns from gpu_work join calls using (call_id)"),
    "stages": rows("select requests.id, stages.begin_ns, coalesce(stages.duration_ns, -1), name from stages join requests using (request_id)"),
    "samples": rows("select at_ns, name, value from samples join counters using (counter_id)"),
    "utc": rows("select epoch_us(begin_utc) - ((begin_ns - clock_ns + unix_ns) // 1000) from requests, processes"),
}))
