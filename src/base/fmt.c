/* fmt.c - text into a caller's buffer                                                 layer 0: base
 * Contract: fmt.h. */
#include "fmt.h"

#include <stdarg.h>

#include "check.h"

void fmt_start(fmt_t *f, char *text, size_t size, fmt_drain_t *drain, void *context) {
  *f = (fmt_t){.text = text, .size = size, .drain = drain, .context = context};
}

bool fmt_is_valid(const fmt_t *f) {
  HOLDS(T1, f->size == 0 ? f->used == 0 : f->used < f->size);
  HOLDS(T2, f->drain != NULL ? f->used <= f->total
                             : f->used == min_size(f->total, max_size(f->size, 1) - 1));
  return true;
}

void fmt_flush(fmt_t *f) {
  ASSERT_VALID(fmt_is_valid(f));
  if (f->drain != NULL && f->used > 0) f->drain(f->text, f->used, f->context);
  if (f->drain != NULL) f->used = 0;
}

const char *fmt_end(fmt_t *f) {
  if (f->size == 0) return "";
  f->text[f->used] = '\0';
  return f->text;
}

/* Makes room by draining the whole lines, or everything if there is no end of line. */
static void drain_lines(fmt_t *f) {
  size_t lines = f->used;
  while (lines > 0 && f->text[lines - 1] != '\n') lines--;
  if (lines == 0) lines = f->used;
  f->drain(f->text, lines, f->context);
  memmove(f->text, f->text + lines, f->used - lines);
  f->used -= lines;
}

void fmt_bytes(fmt_t *f, const char *text, size_t length) {
  f->total += length;
  while (length > 0) {
    size_t room = f->size == 0 ? 0 : f->size - 1 - f->used;
    if (room == 0) {
      if (f->drain == NULL || f->used == 0) return;
      drain_lines(f);
      continue;
    }
    size_t part = min_size(room, length);
    memcpy(f->text + f->used, text, part);
    f->used += part;
    text += part;
    length -= part;
  }
  ASSERT_VALID(fmt_is_valid(f));
}

void fmt_text(fmt_t *f, const char *text) { fmt_bytes(f, text, strlen(text)); }
void fmt_char(fmt_t *f, char c) { fmt_bytes(f, &c, 1); }

void fmt_spaces(fmt_t *f, size_t count) {
  static const char spaces[] = "                ";
  const size_t most = sizeof spaces - 1;
  for (; count >= most; count -= most) fmt_bytes(f, spaces, most);
  fmt_bytes(f, spaces, count);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static const char hex_digits[] = "0123456789abcdef";

static void put_digits(fmt_t *f, uint64_t n, unsigned base) {
  char digits[20]; /* 2^64 has 20 decimal digits */
  size_t at = sizeof digits;
  do {
    digits[--at] = hex_digits[n % base];
    n /= base;
  } while (n > 0);
  fmt_bytes(f, digits + at, sizeof digits - at);
}

void fmt_decimal(fmt_t *f, uint64_t n) { put_digits(f, n, 10); }

void fmt_signed(fmt_t *f, int64_t n) {
  if (n < 0) fmt_char(f, '-');
  put_digits(f, n < 0 ? 0 - (uint64_t)n : (uint64_t)n, 10);
}

void fmt_hex(fmt_t *f, uint64_t n) {
  fmt_text(f, "0x");
  put_digits(f, n, 16);
}

void fmt_hex_bytes(fmt_t *f, const unsigned char *bytes, size_t length) {
  for (size_t i = 0; i < length; i++) {
    fmt_char(f, hex_digits[bytes[i] >> 4]);
    fmt_char(f, hex_digits[bytes[i] & 15]);
  }
}

static void put_tenths(fmt_t *f, uint64_t tenths) {
  fmt_decimal(f, tenths / 10);
  fmt_char(f, '.');
  fmt_decimal(f, tenths % 10);
}

static const char fmt_units[] = "\0KMGTPE";

void fmt_size(fmt_t *f, uint64_t bytes) {
  unsigned unit = 0;
  uint64_t whole = bytes, below = 0; /* (whole + below / 1024) units, to within a 1024th */
  for (; whole >= 1024; unit++) {
    below = whole % 1024;
    whole /= 1024;
  }
  if (unit == 0) {
    fmt_decimal(f, bytes);
    return;
  }
  uint64_t tenths = whole * 10 + (below * 10 + 512) / 1024;
  if (tenths >= 10240 && fmt_units[unit + 1] != '\0') { /* rounded up to the next unit */
    tenths = 10;
    unit++;
  }
  put_tenths(f, tenths);
  fmt_char(f, fmt_units[unit]);
}

void fmt_exact_size(fmt_t *f, uint64_t bytes) {
  unsigned unit = 0;
  for (; bytes != 0 && bytes % 1024 == 0 && fmt_units[unit + 1] != '\0'; unit++) bytes /= 1024;
  fmt_decimal(f, bytes);
  if (unit > 0) fmt_char(f, fmt_units[unit]);
}

void fmt_percent(fmt_t *f, uint64_t part, uint64_t whole) {
  while (part > UINT64_MAX / 2000) { /* room for the product; costs less than a tenth */
    part >>= 1;
    whole >>= 1;
  }
  if (whole == 0) {
    fmt_char(f, '-');
    return;
  }
  put_tenths(f, (part * 1000 + whole / 2) / whole);
  fmt_char(f, '%');
}

/* ---- others' text, columns ------------------------------------------------------------------- */

static bool is_control(char c) { return (unsigned char)c < ' ' || c == 0x7f; }

void fmt_shown(fmt_t *f, const char *text, size_t length, size_t limit) {
  size_t shown = min_size(length, limit);
  for (size_t i = 0; i < shown; i++) fmt_char(f, is_control(text[i]) ? '?' : text[i]);
  if (shown < length) fmt_text(f, "...");
}

bool fmt_pattern(fmt_t *f, const char *pattern, uint32_t process, const uint32_t *number) {
  bool has_process = false;
  for (; *pattern != '\0'; pattern++) { /* Bound: the option's text */
    bool is_process = memcmp(pattern, "%p", 2) == 0;
    bool is_number = number != NULL && memcmp(pattern, "%n", 2) == 0;
    if (is_process || is_number) fmt_decimal(f, is_process ? process : *number), pattern++;
    else fmt_char(f, *pattern);
    has_process = has_process || is_process;
  }
  return has_process;
}

static void pad(fmt_t *f, size_t length, size_t width) {
  if (length < width) fmt_spaces(f, width - length);
}

static void put_left(fmt_t *f, const char *text, size_t width) {
  fmt_text(f, text);
  pad(f, strlen(text), width);
}

static void put_decimal_right(fmt_t *f, uint64_t n, size_t width) {
  fmt_t counted = {0};
  fmt_decimal(&counted, n);
  pad(f, counted.total, width);
  fmt_decimal(f, n);
}

void fmt_size_right(fmt_t *f, uint64_t bytes, size_t width) {
  fmt_t counted = {0};
  fmt_size(&counted, bytes);
  pad(f, counted.total, width);
  fmt_size(f, bytes);
}

void fmt_percent_right(fmt_t *f, uint64_t part, uint64_t whole, size_t width) {
  fmt_t counted = {0};
  fmt_percent(&counted, part, whole);
  pad(f, counted.total, width);
  fmt_percent(f, part, whole);
}

/* Handles the directive behind a %; returns where it ends. */
static const char *put_value(fmt_t *f, const char *at, va_list *values) {
  size_t width = 0;
  while (*at == '-' || *at == '#') at++; /* Bound: the format, here and below */
  if (*at == '*') width = va_arg(*values, unsigned), at++;
  for (; *at >= '0' && *at <= '9'; at++) width = width * 10 + (size_t)(*at - '0');
  bool is_long = *at == 'l';
  at += is_long;
  switch (*at) {
    case 's': put_left(f, va_arg(*values, const char *), width); break;
    case 'p': fmt_hex(f, (uintptr_t)va_arg(*values, const void *)); break;
    case 'x': fmt_hex(f, va_arg(*values, uint64_t)); break;
    case 'u':
      put_decimal_right(f, is_long ? va_arg(*values, uint64_t) : va_arg(*values, unsigned), width);
      break;
    case 'c': fmt_char(f, (char)va_arg(*values, int)); break;
    default: fmt_char(f, *at);
  }
  return at + 1;
}

void fmt_print(fmt_t *f, const char *format, ...) {
  va_list values;
  va_start(values, format);
  for (const char *at; (at = strchr(format, '%')) != NULL;) { /* Bound: the format */
    fmt_bytes(f, format, (size_t)(at - format));
    format = put_value(f, at + 1, &values);
  }
  va_end(values);
  fmt_text(f, format);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

void fmt_json_start(fmt_json_t *j, fmt_t *out) { *j = (fmt_json_t){.out = out, .first = true}; }

static bool in_array(const fmt_json_t *j) {
  return j->depth > 0 && (j->arrays >> (j->depth - 1) & 1) != 0;
}
static bool has_lines(const fmt_json_t *j) { return j->depth == 1 || in_array(j); }

static void new_line(fmt_json_t *j) {
  fmt_char(j->out, '\n');
  fmt_spaces(j->out, (size_t)j->depth * 2);
}

static void put_json_string(fmt_t *f, const char *text) {
  fmt_char(f, '"');
  for (; *text != '\0'; text++) {
    if (is_control(*text)) {
      fmt_text(f, "\\u00");
      fmt_char(f, "01234567"[*text >> 4]);
      fmt_char(f, hex_digits[*text & 15]);
      continue;
    }
    if (*text == '"' || *text == '\\') fmt_char(f, '\\');
    fmt_char(f, *text);
  }
  fmt_char(f, '"');
}

/* Writes what comes before a value: the comma, the new line, the name. */
static void put_member(fmt_json_t *j, const char *name) {
  if (!j->first) fmt_char(j->out, ',');
  if (has_lines(j)) new_line(j);
  else if (!j->first) fmt_char(j->out, ' ');
  j->first = false;
  if (name == NULL) return;
  put_json_string(j->out, name);
  fmt_text(j->out, ": ");
}

static void open_nested(fmt_json_t *j, const char *name, bool is_array) {
  put_member(j, name);
  fmt_char(j->out, is_array ? '[' : '{');
  j->depth++;
  uint32_t bit = (uint32_t)1 << ((j->depth - 1) & 31);
  j->arrays = is_array ? j->arrays | bit : j->arrays & ~bit;
  j->first = true;
}

void fmt_json_object(fmt_json_t *j, const char *name) { open_nested(j, name, false); }
void fmt_json_array(fmt_json_t *j, const char *name) { open_nested(j, name, true); }

void fmt_json_close(fmt_json_t *j) {
  bool lines = has_lines(j) && !j->first, is_array = in_array(j);
  j->depth--;
  if (lines) new_line(j);
  fmt_char(j->out, is_array ? ']' : '}');
  if (j->depth == 0) fmt_char(j->out, '\n');
  j->first = false;
}

void fmt_json_number(fmt_json_t *j, const char *name, uint64_t n) {
  put_member(j, name);
  fmt_decimal(j->out, n);
}

void fmt_json_signed(fmt_json_t *j, const char *name, int64_t n) {
  put_member(j, name);
  fmt_signed(j->out, n);
}

void fmt_json_text(fmt_json_t *j, const char *name, const char *text) {
  put_member(j, name);
  put_json_string(j->out, text);
}
