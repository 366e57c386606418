// SPDX-License-Identifier: Apache-2.0
//
// Prints what Catapult's trace viewer finds in a JSON trace, as JSON: node read_catapult.js VIEWER TRACE. The viewer is the
// page that PyTorch's plug-in for TensorBoard has. Its importer runs here without its interface, as in its own tests.
'use strict';
const fs = require('fs');
const vm = require('vm');

const page = fs.readFileSync(process.argv[2], 'utf8');
const scripts = page.slice(page.indexOf('<script>') + '<script>'.length, page.lastIndexOf('</script>'));

// Takes the place of the browser's objects: the interface's elements are declared, and never made.
const nothing = new Proxy(function() {}, {
  get: (_, key) => key === Symbol.toPrimitive ? () => '' :
      key === Symbol.iterator                 ? function*() {} :
      key === 'prototype'                     ? Object.prototype :
      key === 'length'                        ? 0 :
                                                nothing,
  apply: () => nothing,
  construct: () => nothing,
  set: () => true,
});
const silent = {log() {}, warn() {}, error() {}, info() {}};
// "Vinn" is the viewer's own shell without a browser.
const scope = {isVinn: true, CustomElements: {hasNative: false}, console: silent, setTimeout, clearTimeout, performance, URL};
for (const name of ['document', 'navigator', 'MutationObserver', 'addEventListener', 'location', 'Element',
                    'requestAnimationFrame', 'HTMLElement', 'Document', 'HTMLDivElement', 'HTMLUnknownElement'])
  scope[name] = nothing;
scope.self = scope.global = scope;
Object.defineProperty(scope, 'window', {get: () => scope, set() {}});
vm.createContext(scope);
vm.runInContext(scripts, scope);

const tr = scope.tr;
const model = new tr.Model();
new tr.importer.Import(model).importTraces([fs.readFileSync(process.argv[3], 'utf8')]);
const slices = [];
for (const event of model.getDescendantEvents()) {
  if (event instanceof tr.model.Slice) slices.push([event.category, event.title, event.duration * 1000]);
}
console.log(JSON.stringify({
  slices,
  flows: model.flowEvents.map(flow => [flow.startSlice.title, (flow.endSlice.start - flow.startSlice.start) * 1000]),
  threads: model.getAllThreads().filter(thread => thread.sliceGroup.length).map(thread => thread.name),
  warnings: model.importWarnings.map(warning => warning.type),
}));
