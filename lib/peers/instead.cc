// SPDX-License-Identifier: Apache-2.0
#include "peers/instead.h"

#include <utility>

#include "pitot/analyze/analyze.h"

namespace pitot::peers {
namespace {

class Instead final : public Analyzer {
 public:
  Instead(std::unique_ptr<Analyzer> ordinary, Count count) : ordinary_(std::move(ordinary)), count_(count) {}

  AnalyzerInfo Info() const noexcept override { return ordinary_->Info(); }
  Status Run(Analysis& analysis) override {
    count_(analysis);
    return Status();
  }

 private:
  const std::unique_ptr<Analyzer> ordinary_;
  const Count count_;
};

}  // namespace

std::vector<std::unique_ptr<Analyzer>> With(const std::map<std::string, Count>& counts) {
  std::vector<std::unique_ptr<Analyzer>> analyzers = analyze::MakeCatalogue();
  for (std::unique_ptr<Analyzer>& analyzer : analyzers) {
    const auto count = counts.find(analyzer->Info().name);
    if (count != counts.end()) analyzer = std::make_unique<Instead>(std::move(analyzer), count->second);
  }
  return analyzers;
}

}  // namespace pitot::peers
