// SPDX-License-Identifier: Apache-2.0
#include "collect/torch/version.h"

#include <catch2/catch.hpp>

using pitot::StatusCode;
using pitot::libtorch::CheckVersion;
using pitot::libtorch::VersionIn;

TEST_CASE("LibTorch's configuration has its version", "[torch]") {
  CHECK(VersionIn("PyTorch built with:\n  - GCC 12.2\n  - Build settings: BLAS_INFO=open, TORCH_VERSION=2.11.0, "
                  "USE_CUDA=1, \n") == "2.11.0");
  CHECK(VersionIn("TORCH_VERSION=1.13.1\n") == "1.13.1");
  CHECK(VersionIn("PyTorch built with: nothing") == "");
}

TEST_CASE("a LibTorch of another minor version is refused with both in the message", "[torch]") {
  CHECK(CheckVersion("1.13.0", "1.13.1").ok());
  CHECK(CheckVersion("2.11.0", "2.11.0+cu130").ok());
  for (const char* const other : {"1.12.1", "2.13.0", "1.130.0", "", "13", ".13.0"}) {
    INFO(other);
    CHECK(CheckVersion("1.13.0", other).code() == StatusCode::kUnavailable);
  }
  CHECK_THAT(CheckVersion("1.13.0", "2.11.0").message(),
             Catch::Contains("in the process is 2.11.0") && Catch::Contains("built against 1.13.0"));
  CHECK_THAT(CheckVersion("1.13.0", "").message(), Catch::Contains("is unknown"));
}
