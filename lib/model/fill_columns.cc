// SPDX-License-Identifier: Apache-2.0
#include "model/fill_columns.h"

#include "model/schema.h"

namespace pitot::schema {

void FillColumns(Trace* trace) {
  ForEachTable([&]<const auto & kTable>() {
    using Owner = OfTable<kTable>;
    auto& rows = trace->*kTable.member;
    if constexpr (!kIsVector<DataOf<kTable>>) {
      ForEachColumn<Owner>([&](auto at) {
        using At = decltype(at);
        constexpr bool kMayBeNone = At::kEncoding == kRowOrNone || At::kEncoding == kNearRow || At::kEncoding == kArgs;
        (rows.*at.kColumn.member).resize(SizeOf<Owner>(rows), static_cast<ValueOf<At>>(kMayBeNone ? model::kNone : 0));
      });
    }
  });
}

}  // namespace pitot::schema
