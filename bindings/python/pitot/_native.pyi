# SPDX-License-Identifier: Apache-2.0
# The extension has the names and types of the calls through ctypes.
from pitot._contexts import Current as Current, current as current, step_begin as step_begin, step_end as step_end, tick as tick
from pitot._record import (Scope as Scope, Wait as Wait, counter as counter, hook as hook, instant as instant,
                           scope as scope)
from pitot._request import (Adopt as Adopt, Batch as Batch, Request as Request, Token as Token, emit_many as emit_many, now as now,
                            set_enter as set_enter)
