/* asked_test.c - tests of support/asked: where another process writes a request */
#include "core.h"

#include "../../src/base/layout.h"
#include "../../src/support/asked.h"

extern hidden const layout_row_t __start_freehold_layout[], __stop_freehold_layout[];

TEST(asked, another_process_finds_where_to_write_a_request_and_nothing_is_asked_at_first, "") {
  const layout_row_t *row = __start_freehold_layout;
  while (row < __stop_freehold_layout && strcmp(row->name, "asked_request") != 0) row++;
  CHECK(row < __stop_freehold_layout && row->at == &asked_request);
  CHECK_EQ(row->value, (uint64_t)sizeof asked_request);
  CHECK_EQ(atomic64_load_relaxed(&asked_request.wanted), (uint64_t)ASKED_NOTHING);
}
