# SPDX-License-Identifier: Apache-2.0
"""The runs of a board: faults, doses, models, loads and seeds."""

import os
import re
from pathlib import Path
from typing import Dict, List, NamedTuple, Sequence, Union

from llama_board import LlamaBoard
from python_board import PythonBoard
from servers import Altered, Job, Phase, Plan, Played, PlayedVersion, Version, probe

RATE = 0.2  # share of struck requests, or batches
LOAD = 0.3  # of the server's capacity, by default
GAP_S = 0.3  # between doses
TINY_LANGUAGE_MODEL = ['--layers', '4', '--width', '128', '--heads', '4', '--vocabulary', '256', '--device', 'cpu', '--context', '1024']
# Iterations on a GPU take as long as those above, and prompts are longer, because a GPU handles them faster.
GPU_LANGUAGE_MODEL = ['--layers', '8', '--width', '1024', '--heads', '16', '--vocabulary', '256', '--device', 'cuda', '--context', '8192',
                      '--kv-tokens', '16384', '--no-why']


class Setting(NamedTuple):
    """The common settings of a board's runs. Tuning and scored boards share none of them."""
    seed: int
    image: Sequence[str]  # the image server's model
    pictures: Sequence[str]  # the load generator's
    decode_rate: float
    doses: Sequence[float]  # shares of typical latency
    quiet_s: float
    struck_s: float  # per dose
    control_s: float
    probe_s: float
    controls: Sequence[str]
    skip: Sequence[str] = ()
    most_rate: float = 60.0  # requests a second with faults: a lock held by a fifth of them must not become the bottleneck
    gpu_dose: float = 1.0  # a factor on counts and sizes of faults on a GPU
    records_kernels: bool = True  # on a GPU; otherwise only what the default set records
    server: str = 'image'  # or python (python_board.py), llm (llama_board.py)

    @property
    def has_gpu(self) -> bool:
        return 'cuda' in self.image

    @property
    def environment(self) -> Dict[str, str]:
        return {'PITOT_DEPTH': 'kernels'} if self.has_gpu and self.records_kernels else {}


STRUCK_MEANWHILE = ('F20', 'F21', 'F37')  # logs do not tell the slowed requests; F37 does not judge single requests
RARE = ('X06',)  # few requests are struck by both
# For faults that strike few requests: factors on the rate of requests, and on the seconds of each dose. With a higher rate a smaller
# share of requests holds the lock, and as many of a hundred as before wait for it. (A wait shared by a tenth of the requests is soon
# normal.)
MORE_LOAD, MORE_LOAD_OF_GPU, MORE_TIME = {'F22': 4.0}, {'F22': 2.0}, {'F20': 5 / 3, 'F26': 5 / 3, 'F29': 2.0}
QUICK_CONTROLS, ALL_CONTROLS = ('C02', 'C06'), ('C01', 'C02', 'C03', 'C04', 'C05', 'C06')
SETTINGS = {
    'tune': Setting(11, ['--width', '16', '--resolution', '64'], ['--image-size', '96'], 25, (0.5, 2), 4, 3, 4, 2, QUICK_CONTROLS, RARE),
    'quick': Setting(8191, ['--width', '8', '--resolution', '64'], ['--image-size', '128'], 30, (0.5, 2), 4, 3, 3, 1, QUICK_CONTROLS, RARE),
    # The shortest times that give 131 normal requests, and some twenty struck ones per dose.
    'gpu': Setting(31337, ['--width', '32', '--resolution', '128', '--device', 'cuda', '--no-why'], ['--image-size', '128'], 30, (0.5, 2),
                   2, 2, 3, 1, ALL_CONTROLS, RARE, most_rate=120.0),
    'gpu_default': Setting(27449, ['--width', '32', '--resolution', '128', '--device', 'cuda', '--no-why'], ['--image-size', '128'], 30,
                           (0.5, 2), 2, 2, 3, 1, ALL_CONTROLS, (*RARE, 'F38', 'F38e', 'F38l'), most_rate=120.0, records_kernels=False),
    'gpu_tune': Setting(1009, ['--width', '24', '--resolution', '160', '--device', 'cuda', '--no-why'], ['--image-size', '192'], 24, (0.5, 2),
                        1.5, 2, 2.5, 1, ALL_CONTROLS, RARE, most_rate=90.0, gpu_dose=0.6),
    'full': Setting(90210, ['--width', '12', '--resolution', '80'], ['--image-size', '160'], 35, (0.25, 0.5, 1, 2), 15, 15, 20, 5,
                    ALL_CONTROLS),
    'python': Setting(51203, [], ['--image-size', '96'], 0, (), 6, 10, 15, 2, (), most_rate=40.0, server='python'),
    'llm': Setting(7001, [], [], 0, (), 20, 4, 0, 0, (), server='llm'),
    'llm_tune': Setting(29, [], [], 0, (), 16, 3, 0, 0, (), server='llm'),
    'python_tune': Setting(617, [], ['--image-size', '112'], 0, (), 6, 8, 10, 2, (), most_rate=36.0, server='python'),
}

# Faults dosed by time get shares of typical latency. The others have their own doses, of any number.
TIMED = {'F01': 'slow_decode_spin', 'F01s': 'slow_decode_sleep', 'F22': 'lock_held:rate=0.05', 'F26': 'batch_timeout:rate=0.1', 'F31': 'slow_postprocess',
         'F39': 'unhooked_hop'}
SPINNERS = 2 * len(os.sched_getaffinity(0))
SIZED = {'F20': (f'cpu_spinners:rate=0.02,threads={SPINNERS},dose_ms=', (20, 60)), 'F25': (f'major_faults:rate={RATE},dose_mib=', (1, 4)),
         'F32': (f'fsync:rate={RATE},dose_bytes=', (4096, 1 << 20))}
DECODE = {'F29': ('kv_pressure:rate=0.1,dose_tokens=2048,dose_ms=', (150, 400)), 'F30': ('long_prompt:rate=0.05,dose_tokens=', (300, 900))}
GPU_DECODE = {'F29': ('kv_pressure:rate=0.1,dose_tokens=16384,dose_ms=', (150, 400)),
              'F30': ('long_prompt:rate=0.05,dose_tokens=', (3000, 8000))}
# Prompts of the same length: a difference would be more work, not slower work.
PROMPTS = ['--generate', '--prompt-mean', '400', '--prompt-max', '24', '--output-mean', '400', '--output-max', '20']
BATCH_DELAY_MS = 2.0  # the image server's own; a batch timeout adds to it
ON_GPU = {'F03': ('small_copies:dose_count=', (200, 1000)), 'F04': ('pageable_copy:dose_mib=', (8, 64)),
          'F05': ('sync_each:dose_count=', (200, 1000)), 'F06': ('scalar_readback:dose_count=', (200, 1000)),
          'F07': ('device_malloc:dose_mib=', (4096, 16384)), 'F09': ('lazy_kernel:rate=', (0.05,)),
          'F11': ('tiny_kernels:dose_count=', (500, 4000)), 'F12': ('full_queue:dose_count=', (2000, 6000)),
          'F13': ('shared_stream:dose_count=', (3, 10)), 'F14': ('neighbour:dose_count=', (3, 10))}
RECORDED = {'F33': 'memory_leak:rate=0.3,dose_mib=1'}  # with counters of LibTorch's allocators
GPU_PAIRS = {'X01': ('device_malloc:rate=0.2,dose_mib=8192', 'neighbour:rate=0.2,dose_count=5'),
             'X03': ('small_copies:rate=0.3,dose_count=500', 'batch_timeout:rate=0.3,dose_ms=10'),
             'X04': ('lazy_kernel:rate=0.05',)}
GPU_DOSE = re.compile(r'(dose_(?:count|mib)=)(\d+)')
BIG = ['--big-share', '0.2', '--big-size', '640']
# Played by the simulator's servers. Their clocks and CPUs fall for a while, and the requests slowed by it are known.
PLAYED = {'F16': ['--fault', 'gpu_clock_low'], 'X02': ['--fault', 'gpu_clock_low', '--fault', 'cpu_crowded'],
          'F14p': ['--fault', 'neighbour']}
# The same with GPU times moved early or late. Verdicts on them may not be sure and wrong.
SKEWED = {name: ('F14p', ['--gpu-later-us', us]) for name, us in (('F38', '-400'), ('F38e', '-2000'), ('F38l', '2000'))}
FIRST_VERSION = 'V01'
ALL_BIG = ['--big-share', '1', '--big-size', '512']  # makes decoding a large enough part of latency for a regression
PAIRS = {'X05': ('slow_decode_spin:rate=0.3', 'batch_timeout:rate=0.3'), 'X06': ('lock_held:rate=0.2', 'slow_postprocess:rate=0.4')}


class Board:
    """Makes plans for a server with a capacity of `capacity` requests a second and a latency of `typical_ms`."""

    def __init__(self, setting: Setting, capacity: float, typical_ms: float) -> None:
        self.setting, self.capacity, self.typical_ms = setting, capacity, typical_ms
        self.rate = min(LOAD * capacity, setting.most_rate)

    def measure(self, binaries: Path, out: Path) -> Dict[str, float]:
        """The machine, by a server without faults (servers.probe)."""
        return probe(binaries, out / 'probe', self.image('probe', ()), self.setting.seed, self.setting.probe_s)

    def image(self, name: str, phases: Sequence[Phase], load: Sequence[str] = (), arguments: Sequence[str] = (), rate: float = 0,
              environment: 'Dict[str, str] | None' = None) -> Plan:
        return Plan(name, 'image', [*self.setting.image, '--no-torch', *arguments], [*self.setting.pictures, *load], phases,
                    environment or {}, rate or self.rate)

    def phases(self, *doses: Sequence[str], times: float = 1.0) -> List[Phase]:
        """A quiet part, the source of most of the baseline, and then each dose for a while."""
        struck = [phase for faults in doses for phase in (Phase(times * self.setting.struck_s, tuple(faults)), Phase(GAP_S))]
        return [Phase(self.setting.quiet_s), *struck]

    def rate_of(self, name: str) -> float:
        more = MORE_LOAD_OF_GPU if self.setting.has_gpu else MORE_LOAD
        return min(self.rate * more.get(name, 1.0), LOAD * self.capacity)

    def striking_all(self, fault: str) -> List[Phase]:
        """Strikes all requests of a tenth of the run. A fault in a fifth of the requests or more would become normal."""
        struck_s = self.setting.struck_s / 2
        return [Phase(9 * struck_s), Phase(struck_s, (fault,)), Phase(GAP_S)]

    def timed(self, fault: str, share: float) -> str:
        before = BATCH_DELAY_MS if fault.startswith('batch_timeout') else 0.0
        return f'{fault}{"," if ":" in fault else f":rate={RATE},"}dose_ms={before + share * self.typical_ms:.3f}'

    def faults(self) -> List[Plan]:
        setting, whole = self.setting, [Phase(self.setting.quiet_s + len(self.setting.doses) * self.setting.struck_s)]
        plans = [self.image(name, self.phases(*([self.timed(fault, dose)] for dose in setting.doses), times=MORE_TIME.get(name, 1.0)),
                            rate=self.rate_of(name)) for name, fault in TIMED.items()]
        plans += [self.image(name, self.phases(*([f'{fault}{dose}'] for dose in doses), times=MORE_TIME.get(name, 1.0)))
                  for name, (fault, doses) in SIZED.items()]
        # Eight connections and one decoding thread make a queue, and the decoder is slow for all.
        plans.append(self.image('F02', self.striking_all(f'slow_decode_spin:rate=1,dose_ms={0.5 * self.typical_ms:.3f}'),
                                arguments=['--preprocess-threads', '1']))
        # In percent of one CPU, above the load's mean need.
        plans.append(self.image('F21', self.phases(*([f'cpu_quota:dose_percent={share * self.rate * self.typical_ms / 10:.0f}']
                                                     for share in (1.3, 1.0)))))
        plans += [self.with_torch(self.image(name, self.phases([fault]))) for name, fault in RECORDED.items()]
        plans.append(self.image('F27', whole, ['--burst', '24', '--burst-every', '2.5']))
        plans.append(self.image('F28', whole, ['--big-share', '0.05', '--big-size', '640']))
        model, decode = (GPU_LANGUAGE_MODEL, GPU_DECODE) if setting.has_gpu else (TINY_LANGUAGE_MODEL, DECODE)
        for name, (fault, doses) in decode.items():
            plans.append(Plan(name, 'decode', [*model, '--no-torch'], PROMPTS,
                              self.phases(*([f'{fault}{dose}'] for dose in doses), times=MORE_TIME.get(name, 1.0)), {}, setting.decode_rate))
        return sorted(plans, key=lambda plan: plan.name)

    def pairs(self) -> List[Plan]:
        return [self.image(name, self.phases([self.timed(faults[0], 1), self.timed(faults[1], 2)])) for name, faults in PAIRS.items()]

    def controls(self) -> List[Plan]:
        loads = {'C01': 0.05, 'C02': 0.3, 'C03': 0.6, 'C04': 0.8, 'C05': 0.3, 'C06': 0.3}
        plans = []
        for name in self.setting.controls:
            mixed = ['--big-share', '0.3', '--big-size', '224'] if name == 'C06' else []
            warm_up = ['--warm-up', '0'] if name == 'C05' else []
            whole = [Phase(self.setting.control_s * min(1.0, LOAD / loads[name]))]  # at most as many requests as at the usual load
            plans.append(self.image(name, whole, [*mixed, *warm_up], rate=loads[name] * self.capacity))
        return plans

    def lossy(self) -> Plan:
        """F37: rings too small for the operators recorded in them."""
        plan = self.image('F37', self.phases([self.timed('slow_decode_spin', 2)]), environment={
            'PITOT_MAX_RING_BYTES': str(1 << 16), 'PITOT_DEPTH': 'ops'})
        return self.with_torch(plan)

    @staticmethod
    def with_torch(plan: Plan) -> Plan:
        return plan._replace(arguments=[argument for argument in plan.arguments if argument != '--no-torch'])

    def dosed(self, fault: str) -> str:
        return GPU_DOSE.sub(lambda dose: f'{dose[1]}{max(1, round(self.setting.gpu_dose * int(dose[2])))}', fault)

    def gpu_plans(self) -> List[Plan]:
        """Faults of a GPU, and then all others on a server with a GPU. LibTorch's operators are not recorded."""
        plans = [self.image(name, self.phases(*([self.dosed(f'{fault}{dose}{"" if fault.endswith("rate=") else ",rate=0.1"}')]
                                                for dose in doses))) for name, (fault, doses) in ON_GPU.items()]
        plans += [self.image(name, self.phases([self.dosed(fault) for fault in faults]), BIG if name == 'X04' else ())
                  for name, faults in GPU_PAIRS.items()]
        plans.append(self.with_torch(self.image('F08', self.phases(['empty_cache:rate=0.1']))))
        plans += [*self.controls(), *self.faults(), *self.pairs()]
        return [plan._replace(environment=self.setting.environment) for plan in plans]

    def versions(self) -> List[Job]:
        """Second versions with a change to all requests, and one without a change."""
        def served(name: str, *faults: str) -> Plan:
            return self.image(name, [Phase(2 * self.setting.control_s, faults)], ALL_BIG,
                              environment=self.setting.environment)

        def version(name: str, *faults: str) -> Version:
            return Version(name, FIRST_VERSION, served(name, *faults))
        longer = f'slow_decode_spin:rate=1,dose_ms={0.5 * self.typical_ms:.3f}'
        more = 'tiny_kernels:rate=1,dose_count=200' if self.setting.has_gpu else 'decode_again:rate=1'
        return [served(FIRST_VERSION)._replace(is_judged=False), version('C07'), version('F35', longer), version('F36', more)]

    @staticmethod
    def played() -> List[Job]:
        jobs: List[Job] = [Played(name, arguments) for name, arguments in PLAYED.items()]
        jobs += [Altered(name, of, arguments) for name, (of, arguments) in SKEWED.items()]
        jobs += [PlayedVersion('F35p', ['--fault', 'slower_kernel']), PlayedVersion('F36p', ['--fault', 'more_kernels'])]
        return jobs

    def jobs(self) -> List[Job]:
        jobs: List[Job]
        if self.setting.has_gpu:
            moved = [Altered(name, 'F14', arguments) for name, (_, arguments) in SKEWED.items()]
            jobs = [*self.gpu_plans(), self.lossy(), *moved, *self.versions()]
        else:
            jobs = [*self.faults(), *self.pairs(), self.lossy(), *self.controls(), *self.versions(), *self.played()]
        return [job for job in jobs if job.name not in self.setting.skip]

    @staticmethod
    def unrecorded(job: Job) -> List[Job]:
        """The same run again without a recorder, if injectors log the struck requests."""
        if not isinstance(job, Plan) or job.name[0] != 'F' or job.name in STRUCK_MEANWHILE:
            return []
        return [job._replace(name=f'{job.name}.unrecorded', is_recorded=False)]


def board_of(setting: Setting, capacity: float, typical_ms: float) -> Union[Board, PythonBoard, LlamaBoard]:
    boards = {'python': PythonBoard, 'llm': LlamaBoard}
    return boards.get(setting.server, Board)(setting, capacity, typical_ms)
