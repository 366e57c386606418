// SPDX-License-Identifier: Apache-2.0
#include "pitot/extend/serializer.h"

PITOT_NAMESPACE_BEGIN

Serializer::~Serializer() = default;

PITOT_NAMESPACE_END
