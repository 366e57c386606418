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

async function rowsOf(sql, example) {
  const result = await self.app.trace.engine.query(sql);
  const rows = [];
  for (const row = result.iter(example); row.valid(); row.next()) {
    rows.push(Object.keys(example).map((column) => row[column]));
  }
  return rows;
}

// Every track in the order of the interface: the names of its groups and its own, whether its title is on the page, and its
// slices (by name) or samples.
async function shownTracks() {
  const titles = new Set(Array.from(document.querySelectorAll('.pf-track__title-popup'), (e) => e.textContent));
  const slices = await rowsOf(
      "SELECT track_id AS track, ifnull(name, '') AS name, count() AS n FROM slice GROUP BY 1, 2", {track: 0, name: 'str', n: 0});
  const samples = await rowsOf('SELECT track_id AS track, count() AS n FROM counter GROUP BY 1', {track: 0, n: 0});
  const shown = [];
  const visit = (node, path) => {
    for (const child of node.children) {
      const names = child.headless ? path : [...path, child.name];  // A headless track shows only what it contains.
      const ids = new Set(self.app.trace.tracks.getTrack(child.uri)?.tags?.trackIds);
      const track = {path: names, isOnPage: titles.has(names.at(-1)), slices: {}, samples: 0};
      for (const [id, name, n] of slices) {
        if (ids.has(id)) track.slices[name] = (track.slices[name] || 0) + n;
      }
      for (const [id, n] of samples) {
        if (ids.has(id)) track.samples += n;
      }
      shown.push(track);
      visit(child, names);
    }
  };
  visit(self.app.trace.workspace, []);
  return shown;
}
