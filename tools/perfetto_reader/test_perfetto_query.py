#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the trace reader on hand-written traces."""

import contextlib
import io
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import perfetto_query  # noqa: E402  pylint: disable=wrong-import-position
from perfetto_query import (  # noqa: E402  pylint: disable=wrong-import-position
    PerfettoReader, QueryError, TraceError, split_statements)

PID, TID = 100, 101
PROCESS, THREAD, COUNTER = 1, 2, 3  # Track uuids.
BEGIN, END, COUNT = 1, 2, 4  # TrackEvent types.
FLOW = 0xfeedfacecafe


# An encoder of just enough protobuf: a message is a list of (field number, value), where an int is a varint, a float a double,
# a list a message.
class Fixed64(int):
    pass


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def encode(fields):
    out = b''
    for number, value in fields:
        if isinstance(value, Fixed64):
            out += varint(number << 3 | 1) + struct.pack('<Q', value)
        elif isinstance(value, float):
            out += varint(number << 3 | 1) + struct.pack('<d', value)
        elif isinstance(value, int):
            out += varint(number << 3) + varint(value % (1 << 64))
        else:
            data = value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else encode(value)
            out += varint(number << 3 | 2) + varint(len(data)) + data
    return out


def packet(*fields):
    return encode([(1, [*fields])])


def event(ts, kind, track, *more, flags=2):
    return packet((8, ts), (10, 1), (13, flags), (11, [(9, kind), (11, track), *more]))


def small_trace():
    return [
        packet((8, 1), (60, [(1, PROCESS), (3, [(1, PID), (6, 'server')])])),
        packet((8, 1), (60, [(1, THREAD), (4, [(1, PID), (2, TID), (5, 'worker')])])),
        packet((60, [(1, COUNTER), (5, PROCESS), (2, 'depth'), (8, [(6, 'requests')])])),
        event(1000, BEGIN, THREAD, (23, 'outer "1" \u00fc'), (47, Fixed64(FLOW)), flags=1),
        event(1200, BEGIN, THREAD, (23, 'inner')),
        event(1500, END, THREAD),
        event(2000, END, THREAD),
        event(3000, BEGIN, THREAD, (23, 'later'), (47, Fixed64(FLOW))),
        event(3100, END, THREAD),
        event(1000, COUNT, COUNTER, (30, 7)),
        event(2500, COUNT, COUNTER, (44, 2.5)),
    ]


SLICES = '''
    SELECT s.ts, s.dur, s.depth, s.name, p.name, t.tid, t.name
    FROM slice s LEFT JOIN slice p ON p.id = s.parent_id JOIN thread_track k ON k.id = s.track_id JOIN thread t USING (utid)
    ORDER BY s.ts'''
EXPECTED_SLICES = [
    (1000, 1000, 0, 'outer "1" \u00fc', None, TID, 'worker'),
    (1200, 300, 1, 'inner', 'outer "1" \u00fc', TID, 'worker'),
    (3000, 100, 0, 'later', None, TID, 'worker'),
]


class OnTraces(unittest.TestCase):
    """One browser for all tests; each test opens its own trace in it."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.reader = PerfettoReader(time_limit=30)
        cls.addClassCleanup(cls.reader.close)

    def open(self, data):
        path = Path(self.folder.name, 'trace.pftrace')
        path.write_bytes(data)
        self.reader.open(path)

    def test_slices_flow_and_counter_are_exact(self):
        self.open(b''.join(small_trace()))
        self.assertEqual(self.reader.query(SLICES), EXPECTED_SLICES)
        self.assertEqual(
            self.reader.query('SELECT o.name, i.name FROM flow JOIN slice o ON o.id = slice_out JOIN slice i ON i.id = slice_in'),
            [('outer "1" \u00fc', 'later')])
        self.assertEqual(
            self.reader.query('SELECT c.ts, c.value, k.name, k.unit FROM counter c JOIN counter_track k ON k.id = c.track_id'),
            [(1000, 7.0, 'depth', 'requests'), (2500, 2.5, 'depth', 'requests')])
        self.assertEqual(self.reader.stats(), [])

    def test_stats_report_dropped_packets_and_events(self):
        begin = (11, [(9, BEGIN), (11, THREAD), (10, 5)])
        for what, lost, stat in (
                ('no sequence id', packet((8, 1), begin), 'track_event_tokenizer_errors'),
                ('no incremental state', packet((8, 1), (10, 2), (13, 2), begin), 'tokenizer_skipped_packets'),
                ('unknown iid', packet((8, 1), (10, 2), (13, 1), begin), 'interned_data_tokenizer_errors'),
                ('END of another slice', event(1, BEGIN, 9, (23, 'a')) + event(2, BEGIN, 9, (23, 'b')) +
                 event(3, END, 9, (23, 'a')) + event(4, END, 9, (23, 'b')), 'misplaced_end_event')):
            with self.subTest(what):
                self.open(b''.join(small_trace()) + lost)
                self.assertEqual([row[:2] for row in self.reader.stats()], [(stat, 1)])

    def test_cells_of_every_type(self):
        self.open(b''.join(small_trace()))
        answer = self.reader.execute("SELECT -9223372036854775808 AS a, 9007199254740993 AS b, 0.1 AS c, 1e999 AS d, "
                                     "NULL AS e, '' AS f, 'x\ny' AS g, x'00ff' AS h")
        self.assertEqual(answer['columns'], list('abcdefgh'))
        self.assertEqual(answer['rows'],
                         [[-2**63, 2**53 + 1, 0.1, float('inf'), None, '', 'x\ny', {'hex': '00ff'}]])

    def test_many_rows_and_no_rows(self):
        self.open(b''.join(small_trace()))
        count = 'WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 199999) SELECT i, \'row \' || i FROM n'
        rows = self.reader.query(count)
        self.assertEqual(rows, [(i, f'row {i}') for i in range(200000)])
        self.assertEqual(self.reader.execute('SELECT ts FROM slice WHERE ts < 0'),
                         {'sql': 'SELECT ts FROM slice WHERE ts < 0', 'columns': ['ts'], 'rows': []})

    def test_a_file_truncated_in_the_last_packet_gives_the_packets_before_it(self):
        packets = small_trace()[:8]
        self.open(b''.join(packets) + packets[-1][:-3])
        self.assertEqual([row[:2] for row in self.reader.query(SLICES)], [(1000, 1000), (1200, 300), (3000, -1)])

    def test_a_garbage_packet_is_an_error_and_the_reader_still_works(self):
        with self.assertRaisesRegex(TraceError, 'Failed to parse proto packet'):
            self.open(b''.join(small_trace()) + encode([(1, b'\xff' * 20)]) + b''.join(small_trace()))
        with self.assertRaises(TraceError):
            self.open(b'this is no trace')
        self.open(b''.join(small_trace()))
        self.assertEqual(len(self.reader.query(SLICES)), 3)

    def test_bad_sql_is_an_error_and_the_next_query_works(self):
        self.open(b''.join(small_trace()))
        self.assertIn('no_such_table', self.reader.execute('SELECT * FROM no_such_table')['error'])
        with self.assertRaisesRegex(QueryError, 'syntax'):
            self.reader.query('SELEC')
        with self.assertRaises(QueryError):
            self.reader.query('')
        self.assertEqual(self.reader.query('SELECT count(*) FROM slice'), [(3,)])

    def test_a_querys_tables_stay_until_the_next_trace(self):
        self.open(b''.join(small_trace()))
        self.reader.query('CREATE PERFETTO TABLE mine AS SELECT ts FROM slice')
        self.assertEqual(self.reader.query('SELECT count(*) FROM mine'), [(3,)])
        self.open(b''.join(small_trace()))
        with self.assertRaises(QueryError):
            self.reader.query('SELECT count(*) FROM mine')


class OnTheCommandLine(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.trace = Path(folder.name, 'trace.pftrace')
        self.trace.write_bytes(b''.join(small_trace()))
        self.scratch = Path(folder.name, 'tmp')
        self.scratch.mkdir()

    def run_main(self, *args):
        """Runs the command as a program; returns its status, standard output and standard error."""
        done = subprocess.run([sys.executable, str(HERE / 'perfetto_query.py'), *map(str, args)], timeout=60, check=False,
                              capture_output=True, text=True, env={**os.environ, 'TMPDIR': str(self.scratch)})
        self.assertEqual(list(self.scratch.iterdir()), [], 'files were left behind')
        return done.returncode, done.stdout, done.stderr

    def test_queries_from_arguments_and_from_a_file(self):
        file = self.trace.with_name('queries.sql')
        file.write_text("SELECT 'a;b' AS x; -- one; two\nSELECT min(ts) AS y FROM slice;\n-- the end\n", encoding='ascii')
        status, out, _ = self.run_main(self.trace, '--sql', SLICES, '--sql-file', file, '--stats')
        answers = json.loads(out)
        self.assertEqual(status, 0)
        self.assertEqual([tuple(row) for row in answers[0]['rows']], EXPECTED_SLICES)
        self.assertEqual([(a['columns'], a['rows']) for a in answers[1:]],
                         [(['x'], [['a;b']]), (['y'], [[1000]]), (['name', 'value', 'severity', 'source'], [])])

    def test_a_failed_query_is_status_1_and_the_others_are_answered(self):
        status, out, _ = self.run_main(self.trace, '--sql', 'SELECT nonsense', '--sql', 'SELECT 1 AS one')
        bad, good = json.loads(out)
        self.assertEqual(status, 1)
        self.assertIn('nonsense', bad['error'])
        self.assertEqual(good, {'sql': 'SELECT 1 AS one', 'columns': ['one'], 'rows': [[1]]})

    def test_a_broken_trace_is_status_1(self):
        self.trace.write_bytes(encode([(1, b'\xff' * 20)]))
        status, out, _ = self.run_main(self.trace, '--stats')
        self.assertEqual(status, 1)
        self.assertIn('Failed to parse proto packet', json.loads(out)[0]['error'])

    def test_a_time_limit_is_status_2_and_leaves_nothing(self):
        forever = 'WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n'
        status, out, said = self.run_main(self.trace, '--timeout', '4', '--sql', forever)
        self.assertEqual((status, out), (2, ''))
        self.assertIn('--timeout', said)

    def test_usage_and_environment_problems_are_status_2(self):
        for args, word in ((('missing.pftrace', '--stats'), 'No such file'), ((self.trace,), 'no query')):
            with self.subTest(args=args):
                status, out, said = self.run_main(*args)
                self.assertEqual((status, out), (2, ''))
                self.assertIn(word, said)

    def test_a_missing_browser_is_status_2_with_the_remedy(self):
        said = io.StringIO()
        os.environ['PITOT_CHROMIUM'] = '/nonexistent/chromium'
        self.addCleanup(os.environ.pop, 'PITOT_CHROMIUM')
        with contextlib.redirect_stderr(said):
            self.assertEqual(perfetto_query.main([str(self.trace), '--stats']), 2)
        self.assertIn('the program /nonexistent/chromium does not exist. Install it', said.getvalue())

    def test_a_browser_that_does_not_start_is_status_2(self):
        os.environ['PITOT_CHROMIUM'] = 'false'
        self.addCleanup(os.environ.pop, 'PITOT_CHROMIUM')
        status, out, said = self.run_main(self.trace, '--stats')
        self.assertEqual((status, out), (2, ''))
        self.assertIn('chromium ended by itself', said)


class OnText(unittest.TestCase):
    def test_split_statements(self):
        self.assertEqual(split_statements("SELECT ';' ; /* ; */ SELECT 2;;\n-- ; done\n"),
                         ["SELECT ';'", '/* ; */ SELECT 2'])
        self.assertEqual(split_statements('SELECT 1'), ['SELECT 1'])
        self.assertEqual(split_statements(' -- nothing\n'), [])


if __name__ == '__main__':
    unittest.main()
