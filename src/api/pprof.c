/* pprof.c - writes profiles as pprof reads them: profile.proto                         layer 8: api
 * Contract: pprof.h. The format is that of github.com/google/pprof, proto/profile.proto: messages
 * of protocol buffers, not compressed. An address serves as its location's number. */
#include "pprof.h"

#include "../base/bits.h"
#include "../base/fmt.h"

/* The fields' numbers, message by message. */
enum { PROFILE_SAMPLE_TYPE = 1, PROFILE_SAMPLE, PROFILE_MAPPING, PROFILE_LOCATION };
enum { PROFILE_FUNCTION = 5, PROFILE_STRING };
enum { PROFILE_PERIOD_TYPE = 11, PROFILE_PERIOD, PROFILE_COMMENT };
enum { TYPE_TYPE = 1, TYPE_UNIT };
enum { SAMPLE_LOCATIONS = 1, SAMPLE_VALUES, SAMPLE_LABEL };
enum { LABEL_KEY = 1, LABEL_NUMBER = 3 };
enum { MAPPING_ID = 1, MAPPING_FROM, MAPPING_TO, MAPPING_OFFSET, MAPPING_FILE, MAPPING_BUILD_ID };
enum { LOCATION_ID = 1, LOCATION_MAPPING, LOCATION_ADDRESS, LOCATION_LINE };
enum { LINE_FUNCTION = 1 };
enum { FUNCTION_ID = 1, FUNCTION_NAME };
enum { WIRE_NUMBER = 0, WIRE_BYTES = 2 };

/* ---- bytes ----------------------------------------------------------------------------------- */

static size_t put_varint(unsigned char *at, uint64_t n) {
  return (size_t)(bits_put_varint(at, n) - at);
}

static size_t put_number(unsigned char *at, unsigned field, uint64_t n) {
  size_t length = put_varint(at, field << 3 | WIRE_NUMBER);
  return length + put_varint(at + length, n);
}

static size_t put_bytes(unsigned char *at, unsigned field, const void *bytes, size_t length) {
  size_t head = put_varint(at, field << 3 | WIRE_BYTES);
  head += put_varint(at + head, length);
  memcpy(at + head, bytes, length);
  return head + length;
}

static void flush_out(pprof_t *p) {
  if (!p->has_failed && !os_write(p->file, (const char *)p->out, p->used)) p->has_failed = true;
  p->used = 0;
}

static void write_bytes(pprof_t *p, unsigned field, const void *bytes, size_t length) {
  enum { HEAD_MOST = 20 };
  if (PPROF_OUT - p->used < HEAD_MOST + length) flush_out(p);
  p->used += put_bytes(p->out + p->used, field, bytes, length);
}

static void write_number(pprof_t *p, unsigned field, uint64_t n) {
  unsigned char bytes[20];
  size_t length = put_number(bytes, field, n);
  if (PPROF_OUT - p->used < length) flush_out(p);
  memcpy(p->out + p->used, bytes, length);
  p->used += length;
}

/* ---- parts of a profile ---------------------------------------------------------------------- */

uint64_t pprof_string(pprof_t *p, const char *text) {
  write_bytes(p, PROFILE_STRING, text, min_size(strlen(text), PPROF_MESSAGE));
  return p->strings++;
}

static void write_mapping(const os_image_t *image, void *context) {
  enum { ID_MOST = 32 };
  pprof_t *p = context;
  char id[2 * ID_MOST + 1];
  size_t used = 0;
  fmt_t f;
  if (p->mapping_count == PPROF_MAPPINGS) return;
  p->mappings[p->mapping_count].from = image->from;
  p->mappings[p->mapping_count].to = image->to;
  fmt_start(&f, id, sizeof id, NULL, NULL);
  fmt_hex_bytes(&f, image->build_id, min_size(image->build_id_length, ID_MOST));
  used += put_number(p->message + used, MAPPING_ID, ++p->mapping_count);
  used += put_number(p->message + used, MAPPING_FROM, image->from);
  used += put_number(p->message + used, MAPPING_TO, image->to);
  used += put_number(p->message + used, MAPPING_OFFSET, image->offset);
  used += put_number(p->message + used, MAPPING_FILE, pprof_string(p, image->path));
  if (f.used != 0)
    used += put_number(p->message + used, MAPPING_BUILD_ID, pprof_string(p, fmt_end(&f)));
  write_bytes(p, PROFILE_MAPPING, p->message, used);
}

static size_t bytes_for(size_t seen_size) {
  return sizeof(pprof_t) + seen_size * sizeof(uintptr_t);
}

pprof_t *pprof_begin(int file, size_t frames) {
  size_t size = 1024;
  while (size < 2 * frames) size *= 2; /* Bound: the bits of a word */
  pprof_t *p = os_map(bytes_for(size));
  if (p == NULL) return NULL;
  p->file = file;
  p->seen_size = size;
  pprof_string(p, "");
  os_each_image(p->text, write_mapping, p);
  return p;
}

static void write_type(pprof_t *p, unsigned field, const char *type, const char *unit) {
  unsigned char message[40];
  uint64_t type_number = pprof_string(p, type);
  size_t used = put_number(message, TYPE_TYPE, type_number);
  used += put_number(message + used, TYPE_UNIT, pprof_string(p, unit));
  write_bytes(p, field, message, used);
}

void pprof_value_type(pprof_t *p, const char *type, const char *unit) {
  write_type(p, PROFILE_SAMPLE_TYPE, type, unit);
  p->value_types++;
}

/* False if the address was there before, or there are more than announced at the start. Half of the
 * buckets stay free. */
static bool note_seen(pprof_t *p, uintptr_t address) {
  size_t at = address * bits_golden >> 20;
  for (;; at++) { /* Bound: the buckets in use, at most half of them */
    uintptr_t *bucket = &p->seen[at & (p->seen_size - 1)];
    if (*bucket == address) return false;
    if (*bucket != 0) continue;
    if (p->seen_count == p->seen_size / 2) return false;
    p->seen_count++;
    *bucket = address;
    return true;
  }
}

/* The mapping's number; 0: there is none. */
static size_t mapping_of(const pprof_t *p, uintptr_t address) {
  size_t n = p->mapping_count;
  while (n != 0 && /* Bound: PPROF_MAPPINGS */
         address - p->mappings[n - 1].from >= p->mappings[n - 1].to - p->mappings[n - 1].from)
    n--;
  return n;
}

/* A location without an address: a function that is only a name. */
static uint64_t write_freed_by(pprof_t *p) {
  unsigned char message[40], line[20];
  if (!note_seen(p, PPROF_FREED_BY)) return PPROF_FREED_BY;
  size_t used = put_number(message, FUNCTION_ID, 1);
  used += put_number(message + used, FUNCTION_NAME, pprof_string(p, "[freed by]"));
  write_bytes(p, PROFILE_FUNCTION, message, used);
  size_t length = put_number(line, LINE_FUNCTION, 1);
  used = put_number(message, LOCATION_ID, PPROF_FREED_BY);
  used += put_bytes(message + used, LOCATION_LINE, line, length);
  write_bytes(p, PROFILE_LOCATION, message, used);
  return PPROF_FREED_BY;
}

/* The calling instruction, not the next one, which may belong to another line. */
static uint64_t write_location(pprof_t *p, uintptr_t return_address) {
  unsigned char message[40];
  uint64_t address = return_address - 1;
  if (return_address == PPROF_FREED_BY) return write_freed_by(p);
  if (!note_seen(p, address)) return address;
  size_t used = put_number(message, LOCATION_ID, address), mapping = mapping_of(p, address);
  if (mapping != 0) used += put_number(message + used, LOCATION_MAPPING, mapping);
  used += put_number(message + used, LOCATION_ADDRESS, address);
  write_bytes(p, PROFILE_LOCATION, message, used);
  return address;
}

void pprof_sample(pprof_t *p, const uintptr_t *frames, size_t count, const uint64_t *values,
                  const pprof_label_t *labels, size_t label_count) {
  size_t used = 0;
  unsigned char label[40];
  ASSERT(count <= PPROF_FRAMES && p->value_types != 0);
  for (size_t i = 0; i < count; i++)
    used += put_number(p->message + used, SAMPLE_LOCATIONS, write_location(p, frames[i]));
  for (size_t i = 0; i < p->value_types; i++)
    used += put_number(p->message + used, SAMPLE_VALUES, values[i]);
  for (size_t i = 0; i < label_count; i++) {
    size_t length = put_number(label, LABEL_KEY, labels[i].key);
    length += put_number(label + length, LABEL_NUMBER, labels[i].value);
    used += put_bytes(p->message + used, SAMPLE_LABEL, label, length);
  }
  write_bytes(p, PROFILE_SAMPLE, p->message, used);
}

bool pprof_end(pprof_t *p, uint64_t period, const char *comment) {
  write_type(p, PROFILE_PERIOD_TYPE, "space", "bytes");
  write_number(p, PROFILE_PERIOD, period);
  if (comment != NULL) write_number(p, PROFILE_COMMENT, pprof_string(p, comment));
  flush_out(p);
  bool is_whole = !p->has_failed;
  os_unmap(p, bytes_for(p->seen_size));
  return is_whole;
}
