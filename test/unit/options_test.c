/* options_test.c - tests of support/options: one row of the table, one test */
#include "../test.h"

#include <pthread.h>

#include "../../src/support/options.h"
#include "os_fake.c"

/* The program's own text; each test runs in a process of its own and sets it before it loads. */
extern const char *fh_options;
__attribute__((visibility("default"))) const char *fh_options = NULL;

static char lines[8192];
static size_t lines_length, lines_count;

static void keep(const char *line, size_t length) {
  CHECK(length > 0 && line[length - 1] == '\n' && memchr(line, '\n', length - 1) == NULL);
  CHECK_LT(lines_length + length, sizeof lines);
  memcpy(lines + lines_length, line, length);
  lines_length += length;
  lines_count++;
}

static void load(const char *environment, const char *program) {
  if (environment != NULL) setenv("FREEHOLD_OPTIONS", environment, 1);
  else unsetenv("FREEHOLD_OPTIONS");
  fh_options = program;
  options_load(keep);
  CHECK(options_are_valid());
}

/* Both ends of the range are taken, what lies beyond is not, and text comes back as it went in. */
static void check_row(option_t option, const char *name, int64_t fallback, const char *lowest,
                      const char *below, const char *highest, const char *above, bool any_time) {
  const option_info_t *info = &option_info[option];
  int64_t value = 77;
  CHECK_SAME_TEXT(info->name, name);
  CHECK_EQ(option_find(name, strlen(name)), option);
  CHECK_EQ(info->fallback, fallback);
  CHECK_EQ(option_get(option), fallback);
  CHECK(option_source(option) == (OPTION_FROM_DEFAULT));
  CHECK(option_parse(option, lowest, strlen(lowest), &value));
  CHECK_EQ(value, info->lowest);
  CHECK(option_parse(option, highest, strlen(highest), &value));
  CHECK_EQ(value, info->highest);
  CHECK(!option_parse(option, below, strlen(below), &value));
  CHECK(!option_parse(option, above, strlen(above), &value));
  CHECK_EQ(value, info->highest);
  for (int end = 0; end < 2; end++) {
    char text[64];
    fmt_t f;
    fmt_start(&f, text, sizeof text, NULL, NULL);
    option_put_value(&f, option, end ? info->highest : info->lowest);
    CHECK(option_parse(option, fmt_end(&f), f.used, &value));
    CHECK_EQ(value, end ? info->highest : info->lowest);
  }
  CHECK_EQ(option_set(option, info->highest), any_time);
  CHECK_EQ(option_get(option), any_time ? info->highest : fallback);
  CHECK(option_source(option) == (any_time ? OPTION_FROM_CALL : OPTION_FROM_DEFAULT));
  CHECK(info->highest == INT64_MAX || !option_set(option, info->highest + 1));
  CHECK(!option_set(option, info->lowest - 1));
  CHECK_GT(strlen(info->what), 10u);
  CHECK(options_are_valid());
}

#define EXABYTES "9223372036854775807"
#define TOO_MUCH "9223372036854775808"
TEST(options, purge_delay_ms_takes_its_range_and_nothing_beyond, "O1") {
  check_row(OPTION_purge_delay_ms, "purge_delay_ms", 50, "-1", "-2", "600000", "600001", true);
}
TEST(options, purge_budget_takes_its_range_and_nothing_beyond, "O1") {
  check_row(OPTION_purge_budget, "purge_budget", 16 << 20, "0", "-1", EXABYTES, TOO_MUCH, true);
}
TEST(options, arena_step_takes_its_range_and_nothing_beyond, "O1") {
  check_row(OPTION_arena_step, "arena_step", 64 << 20, "64K", "65535", "1G", "1025M", false);
}
TEST(options, thp_takes_its_range_and_nothing_beyond, "O1") {
  check_row(OPTION_thp, "thp", THP_AUTO, "auto", "", "always", "sometimes", true);
}
TEST(options, reserve_huge_pages_takes_its_range_and_nothing_beyond, "O1") {
  check_row(OPTION_reserve_huge_pages, "reserve_huge_pages", 0, "0", "-1", "16T", "17592186044417",
            false);
}
TEST(options, reserve_node_takes_its_range_and_nothing_beyond, "O1") {
  check_row(OPTION_reserve_node, "reserve_node", -1, "-1", "-2", "1023", "1024", false);
}
TEST(options, arena_populate_takes_its_range_and_nothing_beyond, "O1") {
  check_row(OPTION_arena_populate, "arena_populate", 0, "off", "", "on", "perhaps", true);
}
TEST(options, populate_takes_its_range_and_nothing_beyond, "O1") {
  check_row(OPTION_populate, "populate", 448 << 10, "0", "-1", "2M", "2097153", true);
}
TEST(options, magazine_takes_its_range_and_nothing_beyond, "O1") {
  check_row(OPTION_magazine, "magazine", 384 << 10, "0", "-1", "64M", "65M", true);
}
TEST(options, caching_threads_takes_its_range_and_nothing_beyond, "O1") {
  check_row(OPTION_caching_threads, "caching_threads", 1024, "1", "0", "1000000", "1000001", true);
}
TEST(options, background_takes_its_range_and_nothing_beyond, "O1") {
  check_row(OPTION_background, "background", 0, "off", "of", "on", "2", false);
}
TEST(options, deepbind_takes_its_range_and_nothing_beyond, "O1") {
  check_row(OPTION_deepbind, "deepbind", DEEPBIND_IGNORE, "ignore", "", "keep", "kept", true);
}
TEST(options, memory_limit_takes_its_range_and_nothing_beyond, "O1") {
  check_row(OPTION_memory_limit, "memory_limit", 0, "100%", "101%", EXABYTES, "8E", true);
}
TEST(options, memory_soft_takes_its_range_and_nothing_beyond, "O1") {
  check_row(OPTION_memory_soft, "memory_soft", 0, "100%", "-1", EXABYTES, "8E", true);
}
TEST(options, container_takes_its_range_and_nothing_beyond, "O1") {
  check_row(OPTION_container, "container", CONTAINER_AUTO, "auto", "", "ignore", "ignored", true);
}
TEST(options, a_share_is_a_size_or_a_percentage_from_1_to_100, "O1") {
  static const char *const wrong[] = {"0%",  "%",    "-5%",  "-5",  "1.5%",
                                      "5 %", "50%%", "50%K", "200%"};
  int64_t value = 77;
  CHECK(option_parse(OPTION_memory_soft, "50%", 3, &value));
  CHECK_EQ(value, -50);
  CHECK(option_parse(OPTION_memory_soft, "2G", 2, &value));
  CHECK_EQ(value, (int64_t)2 << 30);
  for (unsigned i = 0; i < ARRAY_LENGTH(wrong); i++)
    CHECK(!option_parse(OPTION_memory_soft, wrong[i], strlen(wrong[i]), &value));
  CHECK(!option_parse(OPTION_magazine, "50%", 3, &value)); /* it is a size */
  load("memory_soft:101%", NULL);
  CHECK(strstr(lines, "memory_soft: '101%' is not in 0.., 1%..100%; 0 holds\n") != NULL);
}
TEST(options, stats_takes_its_range_and_nothing_beyond, "O1") {
  check_row(OPTION_stats, "stats", STATS_NONE, "none", "0", "json", "xml", true);
}
TEST(options, stats_detail_takes_its_range_and_nothing_beyond, "O1") {
  check_row(OPTION_stats_detail, "stats_detail", 0, "off", "", "on", "onn", false);
}
TEST(options, fill_takes_its_range_and_nothing_beyond, "O1") {
  check_row(OPTION_fill, "fill", FILL_OFF, "off", "", "both", "all", false);
}
TEST(options, realloc_moves_takes_its_range_and_nothing_beyond, "O1") {
  check_row(OPTION_realloc_moves, "realloc_moves", 0, "off", "", "on", "onn", false);
}
TEST(options, abort_on_oom_takes_its_range_and_nothing_beyond, "O1") {
  check_row(OPTION_abort_on_oom, "abort_on_oom", 0, "off", "", "on", "2", false);
}
TEST(options, caches_takes_its_range_and_nothing_beyond, "O1") {
  check_row(OPTION_caches, "caches", 1, "off", "", "on", "2", false);
}
TEST(options, guard_interval_takes_its_range_and_nothing_beyond, "O1") {
  check_row(OPTION_guard_interval, "guard_interval", 0, "0", "-1", "64G", "65G", false);
}
TEST(options, trace_ring_takes_its_range_and_nothing_beyond, "O1") {
  check_row(OPTION_trace_ring, "trace_ring", 0, "0", "-1", "1G", "1025M", false);
}
TEST(options, warnings_takes_its_range_and_nothing_beyond, "O1") {
  check_row(OPTION_warnings, "warnings", 1, "off", "-", "on", "ON", true);
}

TEST(options, a_size_may_have_a_unit_in_any_usual_spelling, "") {
  static const struct {
    const char *text;
    int64_t value;
  } good[] = {
    {"0", 0},
    {"4096", 4096},
    {"64K", 65536},
    {"64k", 65536},
    {"64KB", 65536},
    {"64KiB", 65536},
    {"1G", 1 << 30},
    {"2T", (int64_t)2 << 40},
    {"7E", (int64_t)7 << 60},
    {"12B", 12},
    {"007", 7},
  };
  static const char *const bad[] = {"",     "K",    "-1",   "+1", "1.5G", "64KK",
                                    "64Ki", "64 K", "0x10", "8E", "1Z",   "99999999999999999999",
                                    "1K "};
  int64_t value;
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    CHECK(option_parse(OPTION_purge_budget, good[i].text, strlen(good[i].text), &value));
    CHECK_EQ(value, good[i].value);
  }
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    if (option_parse(OPTION_purge_budget, bad[i], strlen(bad[i]), &value))
      FAIL("'%s' was taken", bad[i]);
}

TEST(options, a_switch_may_be_said_in_four_ways, "") {
  static const char *const words[] = {"off", "on", "no", "yes", "false", "true", "0", "1"};
  for (int64_t i = 0; i < 8; i++) {
    int64_t value = 7;
    CHECK(option_parse(OPTION_background, words[i], strlen(words[i]), &value));
    CHECK_EQ(value, i & 1);
  }
}

TEST(options, the_program_wins_over_the_environment, "") {
  load("purge_delay_ms:1,magazine:1K", "purge_delay_ms:2");
  CHECK_EQ(option_get(OPTION_purge_delay_ms), 2);
  CHECK(option_source(OPTION_purge_delay_ms) == (OPTION_FROM_PROGRAM));
  CHECK_EQ(option_get(OPTION_magazine), 1024);
  CHECK(option_source(OPTION_magazine) == (OPTION_FROM_ENVIRONMENT));
  CHECK(option_source(OPTION_thp) == (OPTION_FROM_DEFAULT));
  CHECK_EQ(lines_count, 0u);
}

TEST(options, the_last_of_several_values_holds_and_spaces_do_not_count, "") {
  load(" purge_delay_ms : 1 ,\tpurge_delay_ms:3,, thp: never,\n", NULL);
  CHECK_EQ(option_get(OPTION_purge_delay_ms), 3);
  CHECK_EQ(option_get(OPTION_thp), THP_NEVER);
  CHECK_EQ(lines_count, 0u);
}

TEST(options, a_bad_value_is_told_with_its_range_and_the_one_before_holds, "") {
  load("purge_delay_ms:abc", NULL);
  CHECK_EQ(option_get(OPTION_purge_delay_ms), 50);
  CHECK_SAME_TEXT(lines, "freehold: option purge_delay_ms: 'abc' is not in -1..600000; 50 holds\n");
}

TEST(options, each_kind_of_mistake_has_its_line, "") {
  load("arena_step:2G,thp,nosuch:1,:5,magazine:1M,magazine:x", NULL);
  CHECK_EQ(option_get(OPTION_magazine), 1 << 20);
  CHECK_SAME_TEXT(
    lines, "freehold: option arena_step: '2G' is not in 64K..1G; 64M holds\n"
           "freehold: option thp: '' is not in auto|never|always; auto holds\n"
           "freehold: option nosuch: there is none of that name; 'freehold options' lists them\n"
           "freehold: option : there is none of that name; 'freehold options' lists them\n"
           "freehold: option magazine: 'x' is not in 0..64M; 1M holds\n");
}

TEST(options, mistakes_are_told_once_however_often_the_options_are_loaded, "") {
  load("nosuch:1", NULL);
  load("nosuch:1", NULL);
  CHECK_EQ(lines_count, 1u);
}

TEST(options, verbose_takes_its_range_and_nothing_beyond, "O1") {
  check_row(OPTION_verbose, "verbose", 0, "off", "-", "on", "ON", false);
}

TEST(options, warnings_off_holds_for_what_stands_before_it_too, "") {
  load("nosuch:1,warnings:off", NULL);
  CHECK_EQ(lines_count, 0u);
  CHECK_EQ(option_get(OPTION_warnings), 0);
}

TEST(options, a_text_of_a_megabyte_is_read_quickly_and_told_in_a_few_lines, "timeout=10") {
  size_t size = 1 << 20;
  char *text = malloc(size + 1);
  for (size_t i = 0; i < size; i++) text[i] = "nosuch:1,"[i % 9];
  memcpy(text + size - 18, ",purge_delay_ms:17", 18);
  text[size] = '\0';
  load(NULL, text);
  CHECK_EQ(option_get(OPTION_purge_delay_ms), 17);
  CHECK_LE(lines_count, 10u);
  CHECK(strstr(lines, "freehold: options: ") != NULL &&
        strstr(lines, " more mistakes, not shown\n") != NULL);
}

TEST(options, a_megabyte_without_a_comma_is_one_mistake_in_one_short_line, "timeout=10") {
  size_t size = 1 << 20;
  char *text = malloc(size + 1);
  memset(text, '\n', size);
  memset(text, 'x', size / 2);
  text[size / 4] = ':';
  text[size - 1] = 'y';
  text[size] = '\0';
  load(NULL, text);
  CHECK_EQ(lines_count, 1u);
  CHECK_LT(lines_length, 200u);
}

/* "trace:" or so, and `length` times `letter`. */
static char *long_text(char *to, const char *name, size_t length, char letter) {
  size_t n = (size_t)sprintf(to, "%s:", name);
  memset(to + n, letter, length);
  to[n + length] = '\0';
  return to;
}

TEST(options, with_raised_privileges_none_names_a_file, "") {
  os_fake.is_raised = true;
  load("trace:/tmp/t,purge_delay_ms:5,profile:/tmp/p", NULL);
  CHECK(option_text(OPTION_trace) == NULL && option_text(OPTION_profile) == NULL);
  CHECK_EQ(option_get(OPTION_purge_delay_ms), (int64_t)5);
}

TEST(options, a_text_has_a_length_beyond_which_it_is_told_in_one_short_line, "") {
  static char text[4 * OPTION_TEXT_MOST];
  load(long_text(text, "trace", OPTION_TEXT_MOST, 't'), NULL);
  CHECK_EQ(lines_count, 0u);
  CHECK_EQ(strlen(option_text(OPTION_trace)), (size_t)OPTION_TEXT_MOST);
  int64_t value = 77;
  long_text(text, "trace", OPTION_TEXT_MOST + 1, 't');
  CHECK(!option_parse(OPTION_trace, text + 6, OPTION_TEXT_MOST + 1, &value));
  CHECK(!option_parse(OPTION_trace, text, 0, &value));
  CHECK_EQ(value, 77);
}

TEST(options, a_text_that_is_too_long_changes_nothing_and_names_the_bound, "") {
  static char text[4 * OPTION_TEXT_MOST], before[300];
  size_t n = strlen(long_text(before, "trace", 250, 'a'));
  memcpy(text, before, n);
  text[n] = ',';
  long_text(text + n + 1, "trace", OPTION_TEXT_MOST + 1, 'b');
  load(text, NULL);
  CHECK_SAME_TEXT(option_text(OPTION_trace), before + strlen("trace:"));
  CHECK_EQ(lines_count, 1u); /* whole, though the value that holds is long */
  CHECK(strstr(lines, "option trace: 'bbbb") == lines + strlen("freehold: "));
  CHECK(strstr(lines, "...' is not in 1..1023 bytes, or all texts exceed 4096; aaa") != NULL);
}

/* A text counts once, also where there is a mistake. */
TEST(options, texts_that_fit_together_do_so_beside_a_mistake_too, "") {
  static char text[4 * OPTION_TEXT_MOST];
  size_t n = strlen(long_text(text, "trace", OPTION_TEXT_MOST, 't'));
  text[n++] = ',';
  n += strlen(long_text(text + n, "profile", OPTION_TEXT_MOST, 'p'));
  strcpy(text + n, ",nosuch:1");
  load(text, text); /* and the program says the same */
  CHECK_EQ(lines_count, 2u);
  for (const char *line = lines; *line != '\0'; line = strchr(line, '\n') + 1)
    CHECK(strstr(line, "freehold: option nosuch: ") == line);
  CHECK_EQ(strlen(option_text(OPTION_trace)), (size_t)OPTION_TEXT_MOST);
  CHECK_EQ(strlen(option_text(OPTION_profile)), (size_t)OPTION_TEXT_MOST);
}

TEST(options, what_finds_no_room_among_all_texts_is_told_and_the_one_before_holds, "") {
  static char text[8 * OPTION_TEXT_MOST];
  size_t n = 0;
  for (char letter = 'a'; letter <= 'e'; letter++) { /* the fifth does not fit */
    n += strlen(long_text(text + n, "trace", OPTION_TEXT_MOST, letter));
    text[n++] = letter < 'e' ? ',' : '\0';
  }
  load(text, NULL);
  CHECK_EQ(option_text(OPTION_trace)[0], 'd');
  CHECK_EQ(lines_count, 1u);
  CHECK(strstr(lines, "'eeee") != NULL && strstr(lines, "all texts exceed 4096; dddd") != NULL);
}

TEST(options, of_a_link_that_is_too_long_the_item_that_is_cut_does_not_count, "") {
  enum { READ = 4000 }; /* bytes of it */
  static char link[READ + 20];
  const char *last = ",purge_delay_ms:12";
  memset(link, ',', READ);
  memcpy(link, "magazine:1K", strlen("magazine:1K"));
  strcpy(link + READ - strlen(last), last);
  strcpy(link + READ, "34");
  os_fake.link = link;
  load(NULL, NULL);
  CHECK_EQ(option_get(OPTION_purge_delay_ms), option_info[OPTION_purge_delay_ms].fallback);
  CHECK_EQ(option_get(OPTION_magazine), 1 << 10);
  CHECK_EQ(lines_count, 0u);
}

TEST(options, a_value_set_by_a_call_stays_when_the_options_are_loaded_after_it, "") {
  CHECK(option_set(OPTION_purge_delay_ms, 9));
  load("purge_delay_ms:1", NULL);
  CHECK_EQ(option_get(OPTION_purge_delay_ms), 9);
  CHECK(option_source(OPTION_purge_delay_ms) == (OPTION_FROM_CALL));
}

static atomic32_t told;
static void count(const char *line, size_t length) {
  (void)line, (void)length;
  atomic32_add_relaxed(&told, 1);
}

static void *load_too(void *barrier) {
  pthread_barrier_wait(barrier);
  options_load(count);
  CHECK_EQ(option_get(OPTION_purge_delay_ms), 17);
  return NULL;
}

TEST(options, many_threads_may_load_at_once, "") {
  enum { THREADS = 16 };
  pthread_t threads[THREADS];
  pthread_barrier_t barrier;
  setenv("FREEHOLD_OPTIONS", "purge_delay_ms:17,nosuch:1", 1);
  pthread_barrier_init(&barrier, NULL, THREADS);
  for (int i = 0; i < THREADS; i++)
    CHECK_EQ(pthread_create(&threads[i], NULL, load_too, &barrier), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  CHECK_EQ(atomic32_load_relaxed(&told), 1u);
}
