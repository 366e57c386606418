# SPDX-License-Identifier: Apache-2.0
"""Virtual machines of QEMU that run pitot_power_guest and pitot, for tools/power_loss and tools/failing_disk."""

import argparse
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, Tuple

ROOT = Path(__file__).resolve().parents[1]
PATH = os.environ.get('PATH', '') + ':/sbin:/usr/sbin'
SLOT = 64 << 10  # of the memory that the guests share with the host
LEAST_MIB = {'ext4': 192, 'xfs': 320}
MODULES = ['virtio_ring', 'virtio', 'virtio_pci_legacy_dev', 'virtio_pci_modern_dev', 'virtio_pci', 'virtio_blk', 'libcrc32c', 'xfs']
GOOD = {'recover': {0, 1, 5}, 'list': {0, 1}}  # exit codes; of others 0

INIT = '''#!/bin/busybox sh
busybox mount -t proc proc /proc; busybox mount -t sysfs sys /sys; busybox mount -t devtmpfs dev /dev
for module in @MODULES@; do busybox insmod /modules/$module.ko; done
echo @WRITEBACK@ >/proc/sys/vm/dirty_writeback_centisecs; echo @EXPIRE@ >/proc/sys/vm/dirty_expire_centisecs
for device in /sys/bus/pci/devices/*; do
  if [ "$(busybox cat $device/device)" = 0x1110 ]; then memory=$device/resource2; fi
done
. /job
busybox sync
echo @done
busybox poweroff -f
'''
# What a restart finds on a disk.
RESTART = '''
echo @cut @SLOT@
if busybox mount -t @FS@ @DEVICE@ /disk; then
  echo @mounted
  mkdir -p /disk/boxes /recovered
  /pitot recover --post-mortem /disk/boxes -o /recovered --keep; echo @exit recover $?
  rm -rf /recovered
  /guest judge /disk $memory @SLOT@; echo @exit judge $?
  echo @partial $(ls -a /disk/incidents | busybox grep -c '^\\.pitot-partial')
  for incident in @NOTED@; do /pitot info /disk/incidents/$incident >/dev/null; echo @exit info $?; done
  /guest next /disk; echo @exit next $?
  /pitot list /disk/incidents >/dev/null; echo @exit list $?
  busybox umount /disk
fi
'''


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('--kernel', type=Path, required=True, help='folder of an unpacked linux-image package')
    parser.add_argument('--guest', type=Path, default=ROOT / 'build/release/bin/pitot_power_guest', help='statically linked')
    parser.add_argument('--pitot', type=Path, default=ROOT / 'build/release/bin/pitot')
    parser.add_argument('--accelerator', default='tcg', help='tcg, or kvm')
    parser.add_argument('--cpu', default='max')


def archive(files: Dict[str, Tuple[int, bytes]]) -> bytes:
    """An initramfs: cpio, newc."""
    out = bytearray()
    for number, (name, (mode, data)) in enumerate(list(files.items()) + [('TRAILER!!!', (0, b''))], 1):
        fields = [number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0]
        out += b'070701' + b''.join(b'%08x' % field for field in fields) + name.encode() + b'\0'
        out += bytes(-len(out) % 4) + data
        out += bytes(-len(out) % 4)
    return gzip.compress(bytes(out), 1)


class Guest:
    """Makes the kernel's files, and runs machines."""

    def __init__(self, options: argparse.Namespace, work: Path, modules: Tuple[str, ...] = (), programs: Tuple[str, ...] = ()) -> None:
        self.options, self.work = options, work
        kernels = sorted(options.kernel.glob('boot/vmlinuz-*'))
        if not kernels:
            sys.exit(f'{options.kernel} has no boot/vmlinuz-*: unpack a linux-image package there')
        self.kernel = kernels[-1]
        self.files: Dict[str, Tuple[int, bytes]] = {}
        for folder in ['bin', 'proc', 'sys', 'dev', 'disk', 'modules', 'tmp']:
            self.files[folder] = (0o040755, b'')
        for name, path in [('bin/busybox', shutil.which('busybox')), ('guest', options.guest), ('pitot', options.pitot)]:
            if path is None or not Path(path).is_file():
                sys.exit(f'{path or name} is missing; see --help')
            self.files[name] = (0o100755, Path(path).read_bytes())
        for name in ['sh', 'ls', 'rm', 'mkdir']:
            self.files[f'bin/{name}'] = (0o120777, b'busybox')
        self.add_libraries(options.pitot)
        for name in programs:
            path = shutil.which(name, path=PATH)
            if path is None:
                sys.exit(f'{name} is missing; see --help')
            self.files[f'bin/{name}'] = (0o100755, Path(path).read_bytes())
            self.add_libraries(Path(path))
        self.modules = []
        for name in MODULES + list(modules):
            found = sorted(options.kernel.glob(f'lib/modules/*/kernel/**/{name}.ko'))
            if found and (name not in ['xfs', 'libcrc32c'] or options.fs == 'xfs'):
                self.modules.append(name)
                self.files[f'modules/{name}.ko'] = (0o100644, found[-1].read_bytes())

    def add_libraries(self, program: Path) -> None:
        listed = subprocess.run(['ldd', program], check=True, capture_output=True, text=True).stdout
        for path in re.findall(r'(/\S+) \(0x', listed):
            for parent in reversed(Path(path).parents[:-1]):
                self.files.setdefault(str(parent)[1:], (0o040755, b''))
            self.files[path[1:]] = (0o100755, Path(path).read_bytes())

    def start(self, name: str, job: str, drives: List[str], writeback: Tuple[int, int]) -> subprocess.Popen:
        init = INIT.replace('@MODULES@', ' '.join(self.modules)).replace('@WRITEBACK@', str(writeback[0] // 10))
        init = init.replace('@EXPIRE@', str(writeback[1] // 10))
        initrd = self.work / f'{name}.initrd'
        initrd.write_bytes(archive({**self.files, 'init': (0o100755, init.encode()), 'job': (0o100644, job.encode())}))
        memory = self.work / 'memory'
        command = [
            'qemu-system-x86_64', '-machine', f'q35,accel={self.options.accelerator}', '-cpu', self.options.cpu, '-m', '768', '-smp', '2',
            '-nodefaults', '-display', 'none', '-no-reboot', '-serial', f'file:{self.serial(name)}',
            '-kernel', str(self.kernel), '-initrd', str(initrd), '-append', 'console=ttyS0 quiet panic=-1',
            '-object', f'memory-backend-file,id=memory,share=on,mem-path={memory},size={memory.stat().st_size}',
            '-device', 'ivshmem-plain,memdev=memory'] + drives
        return subprocess.Popen(command)

    def serial(self, name: str) -> Path:
        return self.work / f'{name}.serial'

    def text(self, name: str) -> str:
        return self.serial(name).read_text(errors='replace').replace('\r', '') if self.serial(name).exists() else ''


def make_disk(path: Path, fs: str, mib: int = 0) -> None:
    with open(path, 'wb') as image:
        image.truncate(max(LEAST_MIB[fs], mib) << 20)
    maker = {'ext4': ['mkfs.ext4', '-q', '-F', '-E', 'lazy_itable_init=0'], 'xfs': ['mkfs.xfs', '-q', '-f']}[fs]
    subprocess.run(maker + [str(path)], check=True, env={**os.environ, 'PATH': PATH})


def wait_for(what: Any, limit_s: float, why: str) -> None:
    end = time.monotonic() + limit_s
    while not what():
        if time.monotonic() > end:
            raise RuntimeError(why)
        time.sleep(0.05)


def restart(fs: str, device: str, slot: int, noted: List[str]) -> str:
    """The steps of a restart, for a guest's job. `noted`: incidents that were reported as written."""
    steps = RESTART.replace('@FS@', fs).replace('@DEVICE@', device)
    return steps.replace('@SLOT@', str(slot)).replace('@NOTED@', ' '.join(noted))


def read(text: str, cut: Dict[str, Any]) -> None:
    cut['mounted'] = '@mounted\n' in text
    cut['boxes'] = [json.loads(line) for line in re.findall(r'^@box (.*)', text, re.M)]
    cut['exits'] = [(name, int(code)) for name, code in re.findall(r'^@exit (\w+) (\d+)', text, re.M)]
    cut['logs'] = re.findall(r'^@log (.*)', text, re.M)
    cut['next'] = next((json.loads(line) for line in re.findall(r'^@next (.*)', text, re.M)), None)
    cut['partial'] = sum(map(int, re.findall(r'^@partial (\d+)', text, re.M)))
    cut['text'] = text


def failures(cut: Dict[str, Any]) -> List[str]:
    """What must not be."""
    found = [] if cut.get('mounted') else ['the disk cannot be mounted']
    after = cut.get('next') or {}
    if not (after.get('ok') and after.get('own_box') and after.get('incident') and not after.get('errors')):
        found.append(f'the next start: {after or "did not end"}')
    exits = cut.get('exits', [])
    for name, count in [('recover', 1), ('judge', 1), ('next', 1), ('list', 1), ('info', len(cut['noted']))]:
        codes = [code for what, code in exits if what == name]
        if len(codes) != count or any(code not in GOOD.get(name, {0}) for code in codes):
            found.append(f'{name} ended with {codes}')
    for key in ('torn', 'invented', 'twice', 'missing', 'misnamed'):
        count = sum(box.get(key, 0) for box in cut.get('boxes', []))
        if count:
            found.append(f'{count} events or requests are {key}')
    return found
