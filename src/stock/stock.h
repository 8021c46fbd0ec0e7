/* stock.h - all headers of this layer, and what most of its files need as well       layer 5: stock
 * Owns:    nothing.   Called by: everyone above.   Calls: nothing.
 * Threads: as each header says. What a file calls stands in its contract. */
#pragma once

#include "../arena/budget.h"
#include "../os/os.h"
#include "empty.h"
#include "fresh.h"
#include "guard.h"
#include "heap.h"
#include "held.h"
#include "huge.h"
#include "index.h"
#include "lanes.h"
#include "large.h"
#include "magazine.h"
#include "outbox.h"
#include "owned.h"
#include "paged.h"
#include "pool.h"
#include "quarantine.h"
#include "returned.h"
#include "runs.h"
#include "sample.h"
#include "shrink.h"
#include "surplus.h"
#include "tails.h"
#include "users.h"
