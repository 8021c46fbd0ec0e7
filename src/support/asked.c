/* asked.c - what the command `freehold` asks of a process                          layer 2: support
 * Contract: asked.h. */
#include "asked.h"

#include "../base/layout.h"

large_table asked_t outside_request;
LAYOUT_VARIABLE(outside_request);
