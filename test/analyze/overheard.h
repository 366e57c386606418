// SPDX-License-Identifier: Apache-2.0
//
// The catalogue, with each analyzer's confidence checked as it is claimed: a report holds it to 0 and 1.
#ifndef PITOT_TEST_ANALYZE_OVERHEARD_H_
#define PITOT_TEST_ANALYZE_OVERHEARD_H_

#include <catch2/catch.hpp>
#include <memory>
#include <utility>
#include <vector>

#include "pitot/analyze/analyze.h"
#include "pitot/extend/analyzer.h"

namespace pitot::test {

class Overheard final : public Analyzer {
 public:
  explicit Overheard(std::unique_ptr<Analyzer> analyzer) : analyzer_(std::move(analyzer)) {}
  AnalyzerInfo Info() const noexcept override { return analyzer_->Info(); }
  Status Run(Analysis& analysis) override {
    Ear ear(analysis);
    return analyzer_->Run(ear);
  }

 private:
  class Ear final : public Analysis {
   public:
    explicit Ear(Analysis& analysis) : analysis_(analysis) {}
    const model::Trace& trace() const noexcept override { return analysis_.trace(); }
    const model::Indexes& indexes() const noexcept override { return analysis_.indexes(); }
    const analyze::BlameIndex* blame_index() noexcept override { return analysis_.blame_index(); }
    const analyze::Walks* walks() noexcept override { return analysis_.walks(); }
    Threshold threshold(const char* name) const noexcept override { return analysis_.threshold(name); }
    void Add(const Measure& measure) override { analysis_.Add(measure); }
    void Add(const Finding& finding) override {
      INFO(finding.code << " claims a confidence of " << finding.confidence);
      CHECK((finding.confidence >= 0 && finding.confidence <= 1));
      analysis_.Add(finding);
    }
    bool IsOver() noexcept override { return analysis_.IsOver(); }

   private:
    Analysis& analysis_;
  };
  const std::unique_ptr<Analyzer> analyzer_;
};

inline std::vector<std::unique_ptr<Analyzer>> OverheardCatalogue() {
  std::vector<std::unique_ptr<Analyzer>> analyzers;
  for (std::unique_ptr<Analyzer>& analyzer : analyze::MakeCatalogue())
    analyzers.push_back(std::make_unique<Overheard>(std::move(analyzer)));
  return analyzers;
}

}  // namespace pitot::test

#endif  // PITOT_TEST_ANALYZE_OVERHEARD_H_
