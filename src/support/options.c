/* options.c - options: the parser and its sources                                  layer 2: support
 * Contract: options.h. */
#include "options.h"

#include "../base/check.h"
#include "../base/layout.h"
#include "../os/os.h"

/* The program's own text, if it has one. If the program links or contains the library, it is always
 * found. Under LD_PRELOAD it is found only if the program exports it (-rdynamic): otherwise it is
 * not in the program's dynamic table. */
extern const char *fh_options __attribute__((weak, visibility("default")));

/* ---- the table in its several forms ---------------------------------------------------------- */

#define OPTION_WORD(option, name, value, word) {OPTION_##option, value, word},
static const struct {
  uint8_t option, value;
  char text[10];
} option_words[] = {FH_OPTION_WORDS(OPTION_WORD)};
#define OPTION_ROW(name_, type, fallback_, lowest_, highest_, when_, what_)                        \
  {.name = #name_,                                                                                 \
   .what = what_,                                                                                  \
   .fallback = (int64_t)(fallback_),                                                               \
   .lowest = (int64_t)(lowest_),                                                                   \
   .highest = (int64_t)(highest_),                                                                 \
   .kind = OPTION_KIND_##type,                                                                     \
   .when = OPTION_SET_AT_##when_},
const option_info_t option_info[OPTION_COUNT] = {FH_OPTIONS(OPTION_ROW)};

#define OPTION_FALLBACK(name, type, fallback, ...) {(uint64_t)(fallback)},
atomic64_t option_values[OPTION_COUNT] = {FH_OPTIONS(OPTION_FALLBACK)};
static atomic32_t option_sources[OPTION_COUNT]; /* option_source_t; relaxed: for display */
LAYOUT_VARIABLE(option_values);
LAYOUT_VARIABLE(option_sources);

#define OPTION_SOURCE_TEXT(name, text) text,
const char *const option_source_name[OPTION_SOURCE_COUNT] = {OPTION_SOURCES(OPTION_SOURCE_TEXT)};

option_source_t option_source(option_t option) {
  return (option_source_t)atomic32_load_relaxed(&option_sources[option]);
}

static bool is_in_range(option_t option, int64_t value) {
  return value >= option_info[option].lowest && value <= option_info[option].highest;
}

bool option_set(option_t option, int64_t value) {
  if (option_info[option].when != OPTION_SET_AT_ANY) return false;
  if (!is_in_range(option, value)) return false;
  atomic32_store_relaxed(&option_sources[option], OPTION_FROM_CALL);
  atomic64_store_relaxed(&option_values[option], (uint64_t)value);
  ASSERT_VALID(options_are_valid());
  return true;
}

option_t option_find(const char *name, size_t length) {
  for (unsigned i = 0; i < OPTION_COUNT; i++) {
    const char *known = option_info[i].name;
    if (strncmp(known, name, length) == 0 && known[length] == '\0') return (option_t)i;
  }
  return OPTION_COUNT;
}

bool options_are_valid(void) {
  for (option_t i = 0; i < OPTION_COUNT; i++) HOLDS(O1, is_in_range(i, option_get(i)));
  return true;
}

/* ---- text to value --------------------------------------------------------------------------- */

static bool is_word(const char *text, size_t length, const char *word) {
  return strlen(word) == length && memcmp(text, word, length) == 0;
}

/* Decimal digits at the start of the text: how many, and their value; 0 if none or too many. */
static size_t parse_digits(const char *text, size_t length, uint64_t *value) {
  size_t used = 0;
  *value = 0;
  for (; used < length && text[used] >= '0' && text[used] <= '9'; used++) {
    uint64_t digit = (uint64_t)(text[used] - '0');
    if (*value > ((uint64_t)INT64_MAX - digit) / 10) return 0;
    *value = *value * 10 + digit;
  }
  return used;
}

static bool parse_int(const char *text, size_t length, int64_t *value) {
  bool is_negative = length > 0 && text[0] == '-';
  uint64_t n;
  size_t digits = parse_digits(text + is_negative, length - is_negative, &n);
  if (digits == 0 || digits + is_negative != length) return false;
  *value = is_negative ? -(int64_t)n : (int64_t)n;
  return true;
}

/* 4096, 64K, 64k, 64KB, 64KiB: all powers of 1024. */
static bool parse_size(const char *text, size_t length, int64_t *value) {
  static const char units[] = "KMGTPE";
  uint64_t n;
  size_t used = parse_digits(text, length, &n);
  if (used == 0) return false;
  text += used;
  length -= used;
  if (length > 0 && text[0] != 'B') {
    const char *unit = memchr(units, text[0] & ~0x20, sizeof units - 1); /* lower case too */
    if (unit == NULL) return false;
    unsigned shift = (unsigned)(unit - units + 1) * 10;
    if (n > (uint64_t)INT64_MAX >> shift) return false;
    n <<= shift;
    text++;
    length--;
    if (length > 1 && text[0] == 'i') text++, length--;
  }
  if (length > 0 && !is_word(text, length, "B")) return false;
  *value = (int64_t)n;
  return true;
}

/* A size, or 1% to 100%, whose value is negative. */
static bool parse_share(const char *text, size_t length, int64_t *value) {
  uint64_t percent;
  if (length == 0 || text[length - 1] != '%') return parse_size(text, length, value);
  if (parse_digits(text, length, &percent) != length - 1 || percent == 0) return false;
  *value = -(int64_t)percent;
  return true;
}

static bool parse_bool(const char *text, size_t length, int64_t *value) {
  static const char *const words[] = {"off", "on", "no", "yes", "false", "true", "0", "1"};
  for (unsigned i = 0; i < ARRAY_LENGTH(words); i++) {
    if (!is_word(text, length, words[i])) continue;
    *value = i & 1;
    return true;
  }
  return false;
}

static bool parse_word(option_t option, const char *text, size_t length, int64_t *value) {
  for (unsigned i = 0; i < ARRAY_LENGTH(option_words); i++) {
    if (option_words[i].option != option || !is_word(text, length, option_words[i].text)) continue;
    *value = option_words[i].value;
    return true;
  }
  return false;
}

/* Makes a copy, which nobody ever frees. */
static bool parse_text(const char *text, size_t length, int64_t *value) {
  static large_table char texts[OPTION_TEXTS];
  static atomic32_t used; /* relaxed: each copy has its own bytes */
  if (length == 0 || length > OPTION_TEXT_MOST) return false;
  size_t at = atomic32_add_relaxed(&used, (uint32_t)length + 1);
  if (at + length >= sizeof texts) return false;
  memcpy(texts + at, text, length);
  *value = (int64_t)(uintptr_t)(texts + at);
  return true;
}

bool option_parse(option_t option, const char *text, size_t length, int64_t *value) {
  int64_t parsed = 0;
  bool is_one = false;
  switch (option_info[option].kind) {
    case OPTION_KIND_int: is_one = parse_int(text, length, &parsed); break;
    case OPTION_KIND_size: is_one = parse_size(text, length, &parsed); break;
    case OPTION_KIND_share: is_one = parse_share(text, length, &parsed); break;
    case OPTION_KIND_bool: is_one = parse_bool(text, length, &parsed); break;
    case OPTION_KIND_word: is_one = parse_word(option, text, length, &parsed); break;
    case OPTION_KIND_text: is_one = parse_text(text, length, &parsed); break;
  }
  if (!is_one || !is_in_range(option, parsed)) return false;
  *value = parsed;
  return true;
}

/* ---- value to text --------------------------------------------------------------------------- */

static void put_text_value(fmt_t *f, const char *text) {
  if (text == NULL) fmt_char(f, '-');
  else fmt_shown(f, text, strlen(text), 256);
}

static void put_word(fmt_t *f, option_t option, int64_t value) {
  for (unsigned i = 0; i < ARRAY_LENGTH(option_words); i++)
    if (option_words[i].option == option && option_words[i].value == value)
      fmt_text(f, option_words[i].text);
}

static void put_size_or_percent(fmt_t *f, int64_t value) {
  if (value >= 0) return fmt_exact_size(f, (uint64_t)value);
  fmt_print(f, "%lu%%", 0 - (uint64_t)value);
}

void option_put_value(fmt_t *f, option_t option, int64_t value) {
  switch (option_info[option].kind) {
    case OPTION_KIND_int: fmt_signed(f, value); break;
    case OPTION_KIND_size: fmt_exact_size(f, (uint64_t)value); break;
    case OPTION_KIND_share: put_size_or_percent(f, value); break;
    case OPTION_KIND_bool: fmt_text(f, value != 0 ? "on" : "off"); break;
    case OPTION_KIND_word: put_word(f, option, value); break;
    case OPTION_KIND_text: put_text_value(f, (const char *)(uintptr_t)value); break;
  }
}

void option_put_range(fmt_t *f, option_t option) {
  const option_info_t *info = &option_info[option];
  if (info->kind == OPTION_KIND_text) return fmt_print(f, "1..%u bytes", OPTION_TEXT_MOST);
  if (info->kind == OPTION_KIND_share) return fmt_text(f, "0.., 1%..100%");
  if (info->kind != OPTION_KIND_bool && info->kind != OPTION_KIND_word) {
    option_put_value(f, option, info->lowest);
    fmt_text(f, "..");
    if (info->highest != OPTION_NO_LIMIT) option_put_value(f, option, info->highest);
    return;
  }
  for (int64_t i = info->lowest; i <= info->highest; i++) {
    if (i > info->lowest) fmt_char(f, '|');
    option_put_value(f, option, i);
  }
}

/* ---- loading --------------------------------------------------------------------------------- */

enum { OPTIONS_LINES_MOST = 8, OPTIONS_LINE = 512, OPTIONS_SHOWN = 40, OPTIONS_LINK_MOST = 4000 };

/* The result of one loading; published only when complete. */
typedef struct {
  int64_t values[OPTION_COUNT];
  option_source_t sources[OPTION_COUNT];
  options_warn_t *warn; /* NULL: say nothing */
  size_t mistakes;
} options_loading_t;

/* From the thread that met a mistake first. Only the end shows whether to write them. */
static large_table char reports[OPTIONS_LINES_MOST][OPTIONS_LINE];

static void start_loading(options_loading_t *loading, options_warn_t *warn) {
  memset(loading, 0, sizeof *loading);
  loading->warn = warn;
  for (unsigned i = 0; i < OPTION_COUNT; i++) loading->values[i] = option_info[i].fallback;
}

static void note_mistake(options_loading_t *loading) {
  static atomic32_t reported;
  uint32_t no = 0;
  if (++loading->mistakes > 1 || loading->warn == NULL) return;
  if (!atomic32_cas_relaxed(&reported, &no, 1)) loading->warn = NULL;
}

/* `option` is OPTION_COUNT when nobody knows the name. */
static void complain(options_loading_t *loading, option_t option, const char *name,
                     size_t name_length, const char *value, size_t value_length) {
  fmt_t f;
  note_mistake(loading);
  if (loading->mistakes > OPTIONS_LINES_MOST || loading->warn == NULL) return;
  fmt_start(&f, reports[loading->mistakes - 1], OPTIONS_LINE, NULL, NULL);
  fmt_text(&f, "freehold: option ");
  fmt_shown(&f, name, name_length, OPTIONS_SHOWN);
  if (option == OPTION_COUNT) {
    fmt_text(&f, ": there is none of that name; 'freehold options' lists them\n");
  } else {
    fmt_text(&f, ": '");
    fmt_shown(&f, value, value_length, OPTIONS_SHOWN);
    fmt_text(&f, "' is not in ");
    option_put_range(&f, option);
    if (option_info[option].kind == OPTION_KIND_text)
      fmt_print(&f, ", or all texts exceed %u", OPTION_TEXTS);
    fmt_text(&f, "; ");
    option_put_value(&f, option, loading->values[option]);
    fmt_text(&f, " holds\n");
  }
  fmt_end(&f);
}

/* The last line counts the mistakes that were not kept. */
static void report_mistakes(const options_loading_t *loading) {
  char line[OPTIONS_LINE];
  fmt_t f;
  for (size_t i = 0; i < loading->mistakes && i < OPTIONS_LINES_MOST; i++)
    loading->warn(reports[i], strlen(reports[i]));
  if (loading->mistakes <= OPTIONS_LINES_MOST) return;
  fmt_start(&f, line, sizeof line, NULL, NULL);
  fmt_print(&f, "freehold: options: %lu more mistakes, not shown\n",
            (uint64_t)loading->mistakes - OPTIONS_LINES_MOST);
  loading->warn(line, f.used);
}

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

static void trim_spaces(const char **text, size_t *length) { /* Bound: the text, twice */
  while (*length > 0 && is_space(**text)) ++*text, --*length;
  while (*length > 0 && is_space((*text)[*length - 1])) --*length;
}

/* With raised privileges a file's name is no wish to follow. */
static bool names_file_in_vain(option_t option) {
  return option_info[option].kind == OPTION_KIND_text && os_is_raised();
}

/* "name:value"; spaces alone are no item. */
static void read_item(options_loading_t *loading, const char *item, size_t length,
                      option_source_t source) {
  trim_spaces(&item, &length);
  if (length == 0) return;
  const char *colon = memchr(item, ':', length);
  const char *name = item, *value = colon != NULL ? colon + 1 : item + length;
  size_t name_length = colon != NULL ? (size_t)(colon - item) : length;
  size_t value_length = (size_t)(item + length - value);
  trim_spaces(&name, &name_length);
  trim_spaces(&value, &value_length);
  option_t option = option_find(name, name_length);
  if (option != OPTION_COUNT && unlikely(names_file_in_vain(option))) return;
  if (option != OPTION_COUNT && option_parse(option, value, value_length, &loading->values[option]))
    loading->sources[option] = source;
  else complain(loading, option, name, name_length, value, value_length);
}

static void read_text(options_loading_t *loading, const char *text, size_t length,
                      option_source_t source) {
  const char *end = text + length;
  for (;;) { /* Bound: the text's commas */
    const char *comma = memchr(text, ',', (size_t)(end - text));
    read_item(loading, text, (size_t)((comma != NULL ? comma : end) - text), source);
    if (comma == NULL) return;
    text = comma + 1;
  }
}

/* NULL also while the program's pointers are not relocated yet (first use in the resolver of an
 * ifunc). Then the text seems to lie below LOADED_BITS, although the pointer itself does not. */
static const char *text_of_program(void) {
  if (&fh_options == NULL || fh_options == NULL) return NULL;
  bool is_relocated =
    (uintptr_t)fh_options >> LOADED_BITS != 0 || (uintptr_t)&fh_options >> LOADED_BITS == 0;
  return is_relocated ? fh_options : NULL;
}

static void read_all(options_loading_t *loading) {
  char link[OPTIONS_LINK_MOST];
  size_t length = os_read_link(option_source_name[OPTION_FROM_LINK], link, sizeof link);
  bool is_cut = length == sizeof link;                     /* then its last item is incomplete */
  while (is_cut && length > 0 && link[--length] != ',') {} /* Bound: the text */
  read_text(loading, link, length, OPTION_FROM_LINK);
  const char *environment = os_environment(option_source_name[OPTION_FROM_ENVIRONMENT]);
  if (environment != NULL)
    read_text(loading, environment, strlen(environment), OPTION_FROM_ENVIRONMENT);
  const char *program = text_of_program();
  if (program != NULL) read_text(loading, program, strlen(program), OPTION_FROM_PROGRAM);
}

/* Every thread that loads arrives at the same values. Only defaults are replaced, so a late thread
 * undoes nothing. */
static void publish_options(const options_loading_t *loading) {
  for (unsigned i = 0; i < OPTION_COUNT; i++) {
    uint64_t fallback = (uint64_t)option_info[i].fallback;
    uint32_t by_default = OPTION_FROM_DEFAULT;
    if (loading->sources[i] == OPTION_FROM_DEFAULT) continue;
    if (option_source((option_t)i) == OPTION_FROM_CALL) continue;
    atomic64_cas_relaxed(&option_values[i], &fallback, (uint64_t)loading->values[i]);
    atomic32_cas_relaxed(&option_sources[i], &by_default, loading->sources[i]);
  }
}

cold void options_load(options_warn_t *warn) {
  static atomic32_t loaded;
  options_loading_t loading;
  if (atomic32_load_acquire(&loaded)) return; /* S-options */
  start_loading(&loading, warn);
  read_all(&loading);
  publish_options(&loading);
  ASSERT_VALID(options_are_valid());
  atomic32_store_release(&loaded, 1); /* S-options */
  if (loading.warn != NULL && loading.values[OPTION_warnings]) report_mistakes(&loading);
}
