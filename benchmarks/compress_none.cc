// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/register.h"

namespace pitot::benchmarks {

Compress ZlibCompress() { return nullptr; }

}  // namespace pitot::benchmarks
