/* asked.c - what the command `freehold` asks of a process                          layer 2: support
 * Contract: asked.h. */
#include "asked.h"

#include "../base/layout.h"

large_table asked_t asked_request;
LAYOUT_VARIABLE(asked_request);
