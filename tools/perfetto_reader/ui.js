// SPDX-License-Identifier: Apache-2.0
// Drives Perfetto's interface from inside its page. The interface is self.app; the rest are Perfetto's own commands.
'use strict';

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function idle() {
  await self.waitForPerfettoIdle();
}

async function openTraceInUi(traceUrl, title) {
  // An unreadable trace appears only as an unhandled rejection and a dialog.
  let failure = null;
  self.addEventListener('unhandledrejection', (e) => failure = failure || new Error(e.reason?.message || String(e.reason)));
  while (!self.app || !self.waitForPerfettoIdle) await pause(20);
  const buffer = await (await fetch(traceUrl, {cache: 'no-store'})).arrayBuffer();
  self.app.openTraceFromBuffer({buffer, title, fileName: title});
  while (!self.app.trace) {
    if (failure) throw failure;
    await pause(20);
  }
  await idle();
  const style = document.createElement('style');
  style.textContent = '.pf-statusbar {display: none}';  // It offers to synchronise several windows.
  document.head.append(style);
}

async function arrange({expandAll, expand, pin, fromNs, toNs, select}) {
  const trace = self.app.trace;
  const run = (name, ...args) => trace.commands.runCommand(`dev.perfetto.${name}`, ...args);
  if (expandAll) await run('ExpandAllGroups');
  else await run('CollapseAllGroups');
  for (const pattern of expand) await run('ExpandTracksByRegex', pattern);
  for (const pattern of pin) await run('PinTracksByRegex', pattern);
  await idle();
  if (select) {
    const result = await trace.engine.query(`SELECT id FROM slice WHERE ${select} ORDER BY ts LIMIT 1`);
    const row = result.iter({id: 0});  // 0 is an example of the wanted type.
    if (!row.valid()) throw new Error(`no slice matches ${select}`);
    trace.selection.selectSqlEvent('slice', row.id, {scrollToSelection: true, switchToCurrentSelectionTab: true});
    await idle();
  }
  // Last, because scrolling to a selection moves the view. The times come as text: 64 bits do not fit a JavaScript number.
  const start = fromNs === null ? trace.traceInfo.start : BigInt(fromNs);
  const end = toNs === null ? trace.traceInfo.end : BigInt(toNs);
  if (start >= end) {
    throw new Error(`${start} to ${end} ns is empty; the trace is from ${trace.traceInfo.start} to ${trace.traceInfo.end}`);
  }
  trace.timeline.setViewportTime(start, end);
  await idle();
}

// The height in pixels missing to show every track.
function missingHeight() {
  const tracks = document.querySelector('.pf-viewer-page__scrolling-track-tree');
  return tracks ? tracks.scrollHeight - tracks.clientHeight : 0;
}
