// SPDX-License-Identifier: Apache-2.0
#include "snapshot/texts.h"

#include "base/safe_read.h"
#include "trace/internal_sites.h"
#include "trace/names.h"

namespace pitot::snapshot {
namespace {

constexpr uint64_t kMaxLiteral = 256;

class Own final : public Texts {
 public:
  std::string Name(uint32_t index) const override { return std::string(trace::NameText(index)); }
  SiteText Site(uint64_t address) const override { return ReadSite(address); }
  uint64_t ThreadEndSite() const override { return reinterpret_cast<uintptr_t>(&trace::kThreadEndSite); }
  bool Literal(uint64_t address, std::string* text) const override {
    return base::ReadString(address, kMaxLiteral, text);
  }
};

}  // namespace

const Texts& OwnTexts() {
  static const Own own;
  return own;
}

}  // namespace pitot::snapshot
