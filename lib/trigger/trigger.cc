// SPDX-License-Identifier: Apache-2.0
#include "pitot/extend/trigger.h"

PITOT_NAMESPACE_BEGIN

Trigger::~Trigger() = default;
Status Trigger::Check() const noexcept { return Status(); }
const char* Trigger::Route() const noexcept { return nullptr; }
void Trigger::OnFinish(const RequestView&, FiringSink&) noexcept {}
void Trigger::OnTokens(const RequestView&, uint64_t, FiringSink&) noexcept {}
bool Trigger::WatchesTokens() const noexcept { return false; }
bool Trigger::WatchesOpenRequests() const noexcept { return false; }
void Trigger::OnOpenRequest(const RequestView&, FiringSink&) noexcept {}
bool Trigger::WatchesOpenScopes() const noexcept { return false; }
void Trigger::OnOpenScope(const OpenScopeView&, FiringSink&) noexcept {}
uint64_t Trigger::LateAfterNs(const char*) noexcept { return 0; }

PITOT_NAMESPACE_END
