/* cfi.c - a caller's registers, by a function's unwind table                            layer 1: os
 * Contract: cfi.h. CFA_, OP_ and PE_ are DWARF's DW_CFA_, DW_OP_ and DW_EH_PE_. */
#include "cfi.h"

#include "../../base/atomic.h"
#include "../../base/bits.h"

/* ---- bytes ----------------------------------------------------------------------------------- */

typedef struct {
  const uint8_t *at, *end;
} bytes_t;

/* Past the end it reads 0. */
static uint64_t take_bytes(bytes_t *b, size_t size) {
  uint64_t n = 0;
  if ((size_t)(b->end - b->at) < size) size = (size_t)(b->end - b->at);
  memcpy(&n, b->at, size);
  b->at += size;
  return n;
}

static int64_t take_signed(bytes_t *b, size_t size) {
  unsigned unused = 64 - 8 * (unsigned)size;
  return (int64_t)(take_bytes(b, size) << unused) >> unused;
}

static inline unsigned take_byte(bytes_t *b) { return b->at != b->end ? *b->at++ : 0; }

/* LEB128, unsigned and signed. */
static out_of_line uint64_t take_long_leb(bytes_t *b, bool is_signed) {
  uint64_t n = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) { /* Bound: 10 bytes */
    uint64_t part = take_byte(b);
    n |= (part & 127) << shift;
    if (part > 127) continue;
    if (is_signed && (part & 64) != 0 && shift < 57) n |= ~(uint64_t)0 << (shift + 7);
    return n;
  }
  return n;
}
static always_inline uint64_t take_leb(bytes_t *b, bool is_signed) {
  if (b->at == b->end || *b->at > 63) return take_long_leb(b, is_signed);
  return *b->at++;
}
static uint64_t take_uleb(bytes_t *b) { return take_leb(b, false); }
static int64_t take_sleb(bytes_t *b) { return (int64_t)take_leb(b, true); }
static bytes_t take_block(bytes_t *b) {
  uint64_t length = take_uleb(b), left = (uint64_t)(b->end - b->at);
  bytes_t block = {b->at, b->at + (length < left ? length : left)};
  b->at = block.end;
  return block;
}

/* Return addresses may be signed; the caller of cfi_step removes the signature. */
enum { SIGNS_RETURNS = CFI_SP == 31 }; /* aarch64 */

/* How a pointer is written. */
enum { /* clang-format off */
  PE_UDATA4 = 3, PE_UDATA8 = 4, PE_SDATA4 = 11, PE_SDATA8 = 12, PE_PCREL = 0x10,
  PE_DATAREL = 0x30, PE_INDIRECT = 0x80
}; /* clang-format on */

/* 0 for an encoding that no table of code uses. */
static uintptr_t take_pointer(bytes_t *b, uint8_t encoding) {
  uintptr_t from = (encoding & 0x70) == PE_PCREL ? (uintptr_t)b->at : 0;
  if ((encoding & PE_INDIRECT) != 0 || (encoding & 0x70) > PE_PCREL) return 0;
  switch (encoding & 15) {
    case 0:
    case PE_UDATA8:
    case PE_SDATA8: return from + take_bytes(b, 8);
    case PE_UDATA4: return from + take_bytes(b, 4);
    case PE_SDATA4: return from + (uintptr_t)take_signed(b, 4);
    default: return 0;
  }
}

/* ---- a function's description ---------------------------------------------------------------- */

typedef struct {
  bytes_t common, own; /* instructions: its CIE's, and its own */
  uintptr_t from, size;
  uint64_t code_unit;
  int64_t data_unit;
  uint8_t encoding, ip_register;
  bool has_augmentation, is_signal;
} function_t;

typedef uint32_t __attribute__((may_alias, aligned(1))) loose32_t;
static inline uint32_t load4(const uint8_t *at) { return *(const loose32_t *)(const void *)at; }

/* The bytes behind the length, up to the entry's end; none if it is of the 64-bit kind. */
static bytes_t take_entry(const uint8_t *at) {
  uint32_t length = load4(at);
  return (bytes_t){at + 4, at + 4 + (length != UINT32_MAX ? length : 0)};
}

static bool read_common(function_t *f, const uint8_t *cie) {
  bytes_t b = take_entry(cie);
  uint64_t id = take_bytes(&b, 4), version = take_byte(&b);
  const char *letters = (const char *)b.at;
  if (id != 0 || (version != 1 && version != 3)) return false;
  while (take_byte(&b) != 0) {} /* Bound: the entry */
  f->code_unit = take_uleb(&b);
  f->data_unit = take_sleb(&b);
  f->ip_register = (uint8_t)(version == 1 ? take_byte(&b) : take_uleb(&b));
  f->has_augmentation = letters[0] == 'z';
  bytes_t values = f->has_augmentation ? take_block(&b) : b;
  for (letters++; f->has_augmentation && *letters != '\0'; letters++) { /* Bound: the entry */
    if (*letters == 'R') f->encoding = (uint8_t)take_byte(&values);
    else if (*letters == 'L') take_byte(&values);
    else if (*letters == 'P') take_pointer(&values, (uint8_t)take_byte(&values) & 15);
    else if (*letters == 'S') f->is_signal = true;
    else if (*letters == 'B' && SIGNS_RETURNS) continue;
    else return false;
  }
  f->common = b;
  return f->ip_register < CFI_REGISTERS;
}

static bool read_function(function_t *f, const uint8_t *fde) {
  bytes_t b = take_entry(fde);
  const uint8_t *here = b.at;
  uint64_t back = take_bytes(&b, 4);
  if (back == 0 || !read_common(f, here - back)) return false;
  f->from = take_pointer(&b, f->encoding);
  f->size = take_pointer(&b, f->encoding & 15);
  if (f->has_augmentation) take_block(&b);
  f->own = b;
  return true;
}

typedef struct {
  int32_t from, fde; /* both from the header on */
} row_of_header_t;

/* How many rows the header has; 0: its format is not the one that linkers write. */
enum { HEADER_COUNT = 8, HEADER_ROWS = 12 };
static size_t count_rows(const uint8_t *header) {
  const uint32_t usual = 1 | 0x1B << 8 | PE_UDATA4 << 16 | (uint32_t)0x3B << 24; /* sdata4 */
  return load4(header) == usual ? load4(header + HEADER_COUNT) : 0;
}

/* The function at `ip`, which has row `*row`. */
static bool find_function(function_t *f, const uint8_t *header, uintptr_t ip, size_t *row) {
  size_t low = 0, high = count_rows(header);
  const row_of_header_t *rows = (const void *)(header + HEADER_ROWS);
  while (low < high) { /* Bound: log2 of its functions */
    size_t middle = (low + high) / 2;
    if ((uintptr_t)header + (uintptr_t)rows[middle].from <= ip) low = middle + 1;
    else high = middle;
  }
  *row = low - 1;
  if (low == 0 || !read_function(f, header + rows[low - 1].fde)) return false;
  return ip - f->from < f->size;
}

/* ---- where registers are --------------------------------------------------------------------- */

typedef enum {
  RULE_SAME,
  RULE_UNDEFINED,
  RULE_AT_OFFSET, /* from the CFA */
  RULE_IS_OFFSET,
  RULE_IN_REGISTER,
  RULE_AT_VALUE, /* of an expression */
  RULE_IS_VALUE,
} rule_kind_t;
typedef struct {
  int32_t n;    /* an offset; a register; an expression's offset from the header */
  uint8_t kind; /* rule_kind_t */
} rule_t;
typedef struct {
  rule_t of[CFI_REGISTERS];
  rule_t cfa; /* the frame's address: RULE_IS_OFFSET from `cfa_register`, or RULE_IS_VALUE */
  uint8_t cfa_register;
} rules_t;

enum { REMEMBERED_MOST = 3 };
typedef struct {
  const uint8_t *header;
  function_t function;
  rules_t rules, first; /* now; at the function's start */
  unsigned remembered_count;
  bool is_lost; /* an unknown instruction came up */
  rules_t remembered[REMEMBERED_MOST];
} machine_t;

static void set_rule(machine_t *m, uint64_t n, rule_kind_t kind, int64_t value) {
  if (n < CFI_REGISTERS) m->rules.of[n] = (rule_t){(int32_t)value, (uint8_t)kind};
}

static void set_offset(machine_t *m, bytes_t *b, rule_kind_t kind, bool is_signed) {
  uint64_t n = take_uleb(b);
  set_rule(m, n, kind, (int64_t)take_leb(b, is_signed) * m->function.data_unit);
}

static int32_t take_expression(machine_t *m, bytes_t *b) {
  const uint8_t *at = b->at;
  take_block(b);
  return (int32_t)(at - m->header);
}

static void set_cfa(machine_t *m, uint64_t n, int64_t offset) {
  if (n >= CFI_REGISTERS) m->is_lost = true;
  m->rules.cfa = (rule_t){(int32_t)offset, RULE_IS_OFFSET};
  m->rules.cfa_register = (uint8_t)n;
}

static void restore_rule(machine_t *m, uint64_t n) {
  if (n < CFI_REGISTERS) m->rules.of[n] = m->first.of[n];
}

static void remember_rules(machine_t *m) {
  if (m->remembered_count == REMEMBERED_MOST) m->is_lost = true;
  else m->remembered[m->remembered_count++] = m->rules;
}

static void restore_rules(machine_t *m) {
  if (m->remembered_count == 0) m->is_lost = true;
  else m->rules = m->remembered[--m->remembered_count];
}

/* Instructions; the lower six bits of the first three are an operand. */
enum { /* clang-format off */
  CFA_ADVANCE_LOC = 0x40, CFA_OFFSET = 0x80, CFA_RESTORE = 0xC0, CFA_NOP = 0,
  CFA_ADVANCE_LOC1 = 2, CFA_ADVANCE_LOC2, CFA_ADVANCE_LOC4, CFA_OFFSET_EXTENDED,
  CFA_RESTORE_EXTENDED, CFA_UNDEFINED, CFA_SAME_VALUE, CFA_REGISTER, CFA_REMEMBER_STATE,
  CFA_RESTORE_STATE, CFA_DEF_CFA, CFA_DEF_CFA_REGISTER, CFA_DEF_CFA_OFFSET,
  CFA_DEF_CFA_EXPRESSION, CFA_EXPRESSION, CFA_OFFSET_EXTENDED_SF, CFA_DEF_CFA_SF,
  CFA_DEF_CFA_OFFSET_SF, CFA_VAL_OFFSET, CFA_VAL_OFFSET_SF, CFA_VAL_EXPRESSION,
  CFA_NEGATE_RA_STATE = 0x2D, CFA_GNU_ARGS_SIZE
}; /* clang-format on */

static void run_cfa_rule(machine_t *m, unsigned code, bytes_t *b) {
  const rules_t *r = &m->rules;
  uint64_t n = code == CFA_DEF_CFA || code == CFA_DEF_CFA_SF || code == CFA_DEF_CFA_REGISTER
                 ? take_uleb(b)
                 : r->cfa_register;
  switch (code) {
    case CFA_DEF_CFA:
    case CFA_DEF_CFA_OFFSET: return set_cfa(m, n, (int64_t)take_uleb(b));
    case CFA_DEF_CFA_SF:
    case CFA_DEF_CFA_OFFSET_SF: return set_cfa(m, n, take_sleb(b) * m->function.data_unit);
    case CFA_DEF_CFA_REGISTER: return set_cfa(m, n, r->cfa.n);
    case CFA_NEGATE_RA_STATE: m->is_lost |= !SIGNS_RETURNS; return;
    default: m->is_lost = true;
  }
}

static void run_rule(machine_t *m, unsigned code, bytes_t *b) {
  uint64_t n;
  switch (code) {
    case CFA_NOP: return;
    case CFA_GNU_ARGS_SIZE: take_uleb(b); return;
    case CFA_OFFSET_EXTENDED: return set_offset(m, b, RULE_AT_OFFSET, false);
    case CFA_OFFSET_EXTENDED_SF: return set_offset(m, b, RULE_AT_OFFSET, true);
    case CFA_VAL_OFFSET: return set_offset(m, b, RULE_IS_OFFSET, false);
    case CFA_VAL_OFFSET_SF: return set_offset(m, b, RULE_IS_OFFSET, true);
    case CFA_RESTORE_EXTENDED: return restore_rule(m, take_uleb(b));
    case CFA_UNDEFINED: return set_rule(m, take_uleb(b), RULE_UNDEFINED, 0);
    case CFA_SAME_VALUE: return set_rule(m, take_uleb(b), RULE_SAME, 0);
    case CFA_REGISTER:
      n = take_uleb(b);
      return set_rule(m, n, RULE_IN_REGISTER, (int64_t)(take_uleb(b) % CFI_REGISTERS));
    case CFA_EXPRESSION:
    case CFA_VAL_EXPRESSION:
      n = take_uleb(b);
      return set_rule(m, n, code == CFA_EXPRESSION ? RULE_AT_VALUE : RULE_IS_VALUE,
                      take_expression(m, b));
    case CFA_DEF_CFA_EXPRESSION:
      m->rules.cfa = (rule_t){take_expression(m, b), RULE_IS_VALUE};
      return;
    case CFA_REMEMBER_STATE: return remember_rules(m);
    case CFA_RESTORE_STATE: return restore_rules(m);
    default: run_cfa_rule(m, code, b);
  }
}

/* Runs the instructions at `b`, up to those for `ip`. */
static void run_instructions(machine_t *m, bytes_t b, uintptr_t ip) {
  uintptr_t at = m->function.from;
  while (b.at != b.end && !m->is_lost) { /* Bound: the entry */
    unsigned code = take_byte(&b), low = code & 63;
    uint64_t units = 0;
    switch (code & ~63u) {
      case CFA_ADVANCE_LOC: units = low; break;
      case CFA_OFFSET:
        set_rule(m, low, RULE_AT_OFFSET, (int64_t)take_uleb(&b) * m->function.data_unit);
        break;
      case CFA_RESTORE: restore_rule(m, low); break;
      default:
        if (code < CFA_ADVANCE_LOC1 || code > CFA_ADVANCE_LOC4) run_rule(m, code, &b);
        else units = take_bytes(&b, (size_t)1 << (code - CFA_ADVANCE_LOC1));
    }
    at += units * m->function.code_unit;
    if (at > ip) return;
  }
}

/* ---- their values ---------------------------------------------------------------------------- */

typedef struct {
  const cfi_registers_t *registers; /* the function's */
  cfi_read_t *read;
  void *context;
  uintptr_t cfa;
  bool has_failed;
  machine_t machine;
} caller_t;

static uintptr_t read_word(caller_t *c, uintptr_t at) {
  uintptr_t word = 0;
  if (!c->has_failed && !c->read(c->context, at, &word)) c->has_failed = true;
  return word;
}

/* Operations of expressions. */
enum { /* clang-format off */
  OP_DEREF = 0x06, OP_CONST1U = 0x08, OP_CONST1S, OP_CONST2U, OP_CONST2S, OP_CONST4U,
  OP_CONST4S, OP_AND = 0x1A, OP_MINUS = 0x1C, OP_PLUS = 0x22, OP_PLUS_UCONST, OP_SHL,
  OP_GE = 0x2A, OP_LIT0 = 0x30, OP_BREG0 = 0x70
}; /* clang-format on */
enum { WORDS_MOST = 16, EXPRESSION_MOST = 256 };

/* Makes one word of two. False: the operation is of another kind. */
static bool join_words(unsigned operation, uintptr_t *a, uintptr_t b) {
  switch (operation) {
    case OP_AND: *a &= b; return true;
    case OP_MINUS: *a -= b; return true;
    case OP_PLUS: *a += b; return true;
    case OP_SHL: *a = b < 64 ? *a << b : 0; return true;
    case OP_GE: *a = (intptr_t)*a >= (intptr_t)b; return true;
    default: return false;
  }
}

/* Evaluates the expression `n` bytes behind the header, with `word` on the stack. */
static uintptr_t evaluate(caller_t *c, int32_t n, uintptr_t word) {
  uintptr_t words[WORDS_MOST] = {word};
  size_t top = 0;
  bytes_t whole = {c->machine.header + n, c->machine.header + n + EXPRESSION_MOST};
  bytes_t b = take_block(&whole);
  while (b.at != b.end && !c->has_failed) { /* Bound: the expression */
    unsigned op = take_byte(&b);
    if (top != 0 && join_words(op, &words[top - 1], words[top])) top--;
    else if (op == OP_DEREF) words[top] = read_word(c, words[top]);
    else if (op == OP_PLUS_UCONST) words[top] += take_uleb(&b);
    else if (top + 1 == WORDS_MOST) c->has_failed = true;
    else if (op >= OP_CONST1U && op <= OP_CONST4S) {
      size_t size = (size_t)1 << (op - OP_CONST1U) / 2;
      words[++top] = op % 2 == 0 ? take_bytes(&b, size) : (uintptr_t)take_signed(&b, size);
    } else if (op - OP_LIT0 < 32) words[++top] = op - OP_LIT0;
    else if (op - OP_BREG0 < CFI_REGISTERS)
      words[++top] = c->registers->at[op - OP_BREG0] + (uintptr_t)take_sleb(&b);
    else c->has_failed = true;
  }
  return words[top];
}

static uintptr_t value_of(caller_t *c, rule_t rule) {
  switch ((rule_kind_t)rule.kind) {
    case RULE_AT_OFFSET: return read_word(c, c->cfa + (uintptr_t)(intptr_t)rule.n);
    case RULE_IS_OFFSET: return c->cfa + (uintptr_t)(intptr_t)rule.n;
    case RULE_IN_REGISTER: return c->registers->at[rule.n];
    case RULE_AT_VALUE: return read_word(c, evaluate(c, rule.n, c->cfa));
    case RULE_IS_VALUE: return evaluate(c, rule.n, c->cfa);
    default: return 0; /* RULE_UNDEFINED */
  }
}

/* ---- what was found before ------------------------------------------------------------------- */

static const uint8_t kept_ones[] = {CFI_KEPT};
/* The rules at an address, if they are of the usual kinds. `kept`: a byte for each of `kept_ones`:
 * how many words below the CFA it is saved, 0 if it is unchanged, or NOWHERE. `frame`: the register
 * on which the CFA is based, words from there, and the function's row in the header. relaxed: the
 * `seal` shows if threads have mixed words, or if the description is another's, as in a file loaded
 * later. That takes most of a step's time, so the seal of a file that stays has no description. */
typedef struct {
  atomic64_t kept, frame, seal;
} aligned_to(32) memo_t;
enum { MEMO_BITS = 10, WORD = 8, NOWHERE = 255, FRAME_WORDS_BITS = 23, SEALED_MOST = 1024 };
static memo_t memo[1 << MEMO_BITS];
static memo_t *find_memo(uintptr_t ip) { return &memo[ip * bits_golden >> (64 - MEMO_BITS)]; }

/* 0: reading the table is faster. An entry has 16 bytes at least; its last words may overlap. */
static uint64_t seal_entry(uint64_t seal, const uint8_t *at) {
  const uint8_t *end = take_entry(at).end;
  if (end > at + SEALED_MOST) return 0;
  for (uint64_t word; at < end; at += sizeof word) { /* Bound: SEALED_MOST */
    memcpy(&word, end - max_size(sizeof word, (size_t)(end - at)), sizeof word);
    seal = (seal ^ word) * bits_golden;
    seal ^= seal >> 32; /* else the upper bits of neighbours cancel out */
  }
  return seal;
}
static uint64_t seal_of(const uint8_t *header, bool stays, uintptr_t ip, uint64_t kept,
                        uint64_t frame) {
  const row_of_header_t *rows = (const void *)(header + HEADER_ROWS);
  const uint8_t *fde = header + rows[frame >> (FRAME_WORDS_BITS + 1)].fde;
  uint64_t seal = ((ip ^ kept * bits_golden) * bits_golden ^ (uintptr_t)fde) * bits_golden ^ frame;
  if (stays) return seal != 0 ? seal : 1;
  seal = seal_entry(seal, fde);
  return seal != 0 ? seal_entry(seal, fde + 4 - load4(fde + 4)) : 0;
}

static bool step_by_memo(const uint8_t *header, bool stays, cfi_registers_t *r, uintptr_t ip,
                         cfi_read_t *read, void *context) {
  const memo_t *m = find_memo(ip);
  uint64_t kept = atomic64_load_relaxed(&m->kept), frame = atomic64_load_relaxed(&m->frame);
  if (kept == 0 || frame >> (FRAME_WORDS_BITS + 1) >= count_rows(header)) return false;
  uint64_t seal = seal_of(header, stays, ip, kept, frame);
  if (seal == 0 || atomic64_load_relaxed(&m->seal) != seal) return false;
  uint64_t offset = (frame >> 1 & (((uint64_t)1 << FRAME_WORDS_BITS) - 1)) * WORD;
  uintptr_t cfa = r->at[(frame & 1) != 0 ? CFI_FP : CFI_SP] + offset;
  cfi_registers_t before = *r;
  for (const uint8_t *n = kept_ones; kept != 0; n++, kept >>= 8) { /* Bound: `kept_ones` */
    uintptr_t below = kept & 255;
    if (below == NOWHERE) r->at[*n] = 0;
    else if (below != 0 && !read(context, cfa - below * WORD, &r->at[*n]))
      return *r = before, false;
  }
  r->at[CFI_SP] = cfa;
  r->at[CFI_IP] = r->at[kept_ones[0]];
  return r->is_interrupted = false, true;
}

static void remember_step(const machine_t *m, bool stays, uintptr_t ip, size_t row) {
  const rules_t *rules = &m->rules;
  uint64_t kept = 0, words = (uint64_t)(int64_t)rules->cfa.n / WORD;
  unsigned left = 0; /* rules that the memo cannot hold */
  for (unsigned i = 0; i < CFI_REGISTERS; i++) left += rules->of[i].kind != RULE_SAME;
  for (unsigned i = 0; i < ARRAY_LENGTH(kept_ones); i++) {
    rule_t rule = rules->of[kept_ones[i]];
    uint64_t below = rule.kind == RULE_UNDEFINED ? NOWHERE : (uint64_t) - (int64_t)rule.n / WORD;
    bool is_near = rule.kind == RULE_AT_OFFSET && rule.n % WORD == 0 && below - 1 < NOWHERE - 1;
    if (is_near || rule.kind == RULE_UNDEFINED) kept |= below << 8 * i, left--;
  }
  bool is_from_frame = rules->cfa_register == CFI_FP;
  uint64_t frame = is_from_frame | words << 1 | (uint64_t)row << (FRAME_WORDS_BITS + 1);
  bool is_plain = rules->cfa.kind == RULE_IS_OFFSET && rules->cfa.n % WORD == 0 &&
                  words >> FRAME_WORDS_BITS == 0 &&
                  (is_from_frame || rules->cfa_register == CFI_SP);
  bool is_call = m->function.ip_register == kept_ones[0] && !m->function.is_signal;
  if (kept == 0 || left != 0 || !is_plain || !is_call) return;
  atomic64_store_relaxed(&find_memo(ip)->kept, kept);
  atomic64_store_relaxed(&find_memo(ip)->frame, frame);
  atomic64_store_relaxed(&find_memo(ip)->seal, seal_of(m->header, stays, ip, kept, frame));
}

static out_of_line bool step_by_table(const void *header, bool stays, cfi_registers_t *r,
                                      uintptr_t ip, cfi_read_t *read, void *context) {
  caller_t c;
  size_t row;
  memset(&c, 0, offsetof(caller_t, machine.remembered)); /* the rest is large */
  c.registers = r, c.read = read, c.context = context, c.machine.header = header;
  machine_t *m = &c.machine;
  cfi_registers_t caller = *r;
  if (!find_function(&m->function, header, ip, &row)) return false;
  run_instructions(m, m->function.common, UINTPTR_MAX);
  m->first = m->rules;
  run_instructions(m, m->function.own, ip);
  c.cfa = m->rules.cfa.kind == RULE_IS_VALUE
            ? evaluate(&c, m->rules.cfa.n, 0)
            : r->at[m->rules.cfa_register % CFI_REGISTERS] + (uintptr_t)(intptr_t)m->rules.cfa.n;
  caller.at[CFI_SP] = c.cfa;
  for (unsigned i = 0; i < CFI_REGISTERS; i++)
    if (m->rules.of[i].kind != RULE_SAME) caller.at[i] = value_of(&c, m->rules.of[i]);
  caller.at[CFI_IP] = caller.at[m->function.ip_register];
  caller.is_interrupted = m->function.is_signal;
  if (c.has_failed || m->is_lost) return false;
  remember_step(m, stays, ip, row);
  *r = caller;
  return true;
}

bool cfi_step(const void *header, bool stays, cfi_registers_t *r, cfi_read_t *read, void *context) {
  /* A call may be a function's last instruction: the code behind it belongs to another one. */
  uintptr_t ip = r->at[CFI_IP] - (r->is_interrupted ? 0 : 1);
  return step_by_memo(header, stays, r, ip, read, context) ||
         step_by_table(header, stays, r, ip, read, context);
}
