# SPDX-License-Identifier: Apache-2.0
"""Which runs there are: faults, doses, models, loads and seeds."""

from typing import List, NamedTuple, Sequence

from servers import Phase, Plan

RATE = 0.2  # share of requests, or batches, that are struck
LOAD = 0.3  # of capacity, where nothing else is said
MOST_RATE = 60.0  # requests a second with faults: a lock that a fifth of them keep must not become the bottleneck


class Setting(NamedTuple):
    """What is the same for all runs of a board. Tuning and scored boards share none of it."""
    name: str
    seed: int
    image: Sequence[str]  # the image server's model
    pictures: Sequence[str]  # the load generator's
    doses: Sequence[float]  # shares of typical latency
    quiet_s: float
    struck_s: float  # per dose
    control_s: float
    probe_s: float


SETTINGS = {
    'tune': Setting('tune', 11, ['--width', '16', '--resolution', '64'], ['--image-size', '96'], (0.5, 2), 4, 3, 6, 2),
    'quick': Setting('quick', 4711, ['--width', '8', '--resolution', '64'], ['--image-size', '128'], (0.5, 2), 4, 3, 5, 2),
    'full': Setting('full', 90210, ['--width', '12', '--resolution', '96'], ['--image-size', '160'], (0.25, 0.5, 1, 2), 15, 20, 60, 5),
}

# By time: the dose is a share of typical latency.
TIMED = {'F01': 'slow_decode_spin', 'F22': 'lock_held'}


def image_plan(setting: Setting, name: str, rate: float, phases: Sequence[Phase], load: Sequence[str] = (),
               arguments: Sequence[str] = ()) -> Plan:
    return Plan(name, 'image', [*setting.image, '--no-torch', *arguments], [*setting.pictures, *load], phases, rate=rate)


def phases_of(setting: Setting, faults: Sequence[str]) -> List[Phase]:
    """A quiet part, from which the baseline is mostly learnt, and each fault for a while."""
    return [Phase(setting.quiet_s)] + [phase for fault in faults for phase in (Phase(setting.struck_s, (fault,)), Phase(0.3))]


def plans_of(setting: Setting, capacity: float, typical_ms: float) -> List[Plan]:
    plans = []
    rate = min(LOAD * capacity, MOST_RATE)
    for name, injector in TIMED.items():
        faults = [f'{injector}:rate={RATE},dose_ms={dose * typical_ms:.3f}' for dose in setting.doses]
        plans.append(image_plan(setting, name, rate, phases_of(setting, faults)))
    seconds = setting.quiet_s + len(setting.doses) * setting.struck_s
    plans.append(image_plan(setting, 'F27', rate, [Phase(seconds)], ['--burst', '16', '--burst-every', '3']))
    plans.append(image_plan(setting, 'F28', rate, [Phase(seconds)], ['--big-share', '0.05', '--big-size', '512']))
    plans.append(image_plan(setting, 'C02', 0.3 * capacity, [Phase(setting.control_s)]))
    return plans
