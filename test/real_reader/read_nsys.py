#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints, as JSON, what nsys-ai finds in an export of Nsight Systems: its kernels, and their total times by name."""

import json
import sys

import duckdb
from nsys_ai.profile import Profile


def refuse(*_, **__):
    raise duckdb.IOException('not used')


# It would fetch an extension of DuckDB's over the network. Without DuckDB it asks SQLite.
duckdb.connect = refuse

profile = Profile(sys.argv[1], cache_mode='direct', ingest_policy='sqlite')
kernels = [[k['start'], k['end'], k['streamId'], k['demangled']] for k in profile.kernels(None)]
totals = {k['demangled']: [k['count'], k['total_ns']] for k in profile.aggregate_kernels(None)}
print(json.dumps({'kernels': sorted(kernels), 'totals': totals}))
