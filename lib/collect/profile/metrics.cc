// SPDX-License-Identifier: Apache-2.0
#include "collect/profile/metrics.h"

namespace pitot::profile {

std::vector<std::vector<Metric>> MetricSets(ProfileMetrics metrics) {
  std::vector<std::vector<Metric>> sets = {
      {
          {"gpu__time_duration.sum", &KernelProfile::duration_ns},
          {"sm__warps_active.avg.pct_of_peak_sustained_active", &KernelProfile::achieved_occupancy_percent},
          {"dram__throughput.avg.pct_of_peak_sustained_elapsed", &KernelProfile::dram_percent},
          {"dram__bytes_read.sum", &KernelProfile::dram_read_bytes},
          {"dram__bytes_write.sum", &KernelProfile::dram_written_bytes},
          {"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed", &KernelProfile::tensor_percent},
      },
      {{"lts__t_sector_hit_rate.pct", &KernelProfile::l2_hit_percent}},
  };
  if (metrics == ProfileMetrics::kAll)
    sets.push_back({{"sm__throughput.avg.pct_of_peak_sustained_elapsed", &KernelProfile::sm_percent}});
  return sets;
}

}  // namespace pitot::profile
