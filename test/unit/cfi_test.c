/* cfi_test.c - tests of os/cfi with tables made by hand (unwind_test has those of compilers) */
#include "../test.h"

#include "../../src/os/linux/cfi.c"

/* The tables number registers as x86-64 does: code that is made for another processor reads them as
 * well, but for the stack's and the next instruction's own numbers. */
enum { FRAME_REGISTER = 6, STACK_REGISTER = 7, RETURN_REGISTER = 16 };

/* A table of one function, at code[FUNCTION], of FUNCTION_SIZE bytes; and a stack. */
enum { FUNCTION = 100, FUNCTION_SIZE = 50, STACK = 0x1000, WORDS = 16 };
static char code[200];
static uint8_t table[4096];
static size_t used;
static uintptr_t stack[WORDS]; /* its addresses begin at STACK */

static void put(const void *bytes, size_t size) {
  memcpy(table + used, bytes, size);
  used += size;
}
static void put4(int64_t n) { put(&(int32_t){(int32_t)n}, 4); }
static void put_distance(const void *to) { put4((const uint8_t *)to - (table + used)); }

typedef struct {
  const char *letters;   /* of the augmentation */
  const char *values;    /* of these */
  uint8_t version, unit; /* of code */
  bool is_long;          /* an entry of the 64-bit kind */
} variant_t;
static const variant_t usual = {.letters = "zR", .values = "\x1b", .version = 1, .unit = 1};

typedef struct {
  const char *bytes;
  size_t size;
} code_t;
#define CODE(text) ((code_t){text, sizeof(text) - 1})

static void put_length(size_t at) {
  while (used % 4 != 0) put("", 1);
  memcpy(table + at, &(int32_t){(int32_t)(used - at - 4)}, 4);
}

static void describe_as(variant_t v, code_t common, code_t own) {
  used = 0;
  memset(table, 0, sizeof table);
  put((uint8_t[]){1, PE_PCREL | PE_SDATA4, PE_UDATA4, PE_DATAREL | PE_SDATA4}, 4);
  put4(0); /* where .eh_frame is, which nobody asks for */
  put4(1);
  put4(code + FUNCTION - (char *)table);
  size_t row = used;
  put4(0);
  size_t cie = used, values = strlen(v.values);
  put4(0);
  put4(0);
  put(&v.version, 1);
  put(v.letters, strlen(v.letters) + 1);
  put((uint8_t[]){v.unit, 0x78, RETURN_REGISTER, (uint8_t)values}, 4); /* offsets in units of -8 */
  put(v.values, values);
  put(common.bytes, common.size);
  put_length(cie);
  size_t fde = used;
  memcpy(table + row, &(int32_t){(int32_t)fde}, 4);
  put4(0);
  put4((int64_t)(used - cie));
  put_distance(code + FUNCTION);
  put4(FUNCTION_SIZE);
  put((uint8_t[]){0}, 1);
  put(own.bytes, own.size);
  put_length(fde);
  if (v.is_long) memset(table + fde, 255, 4);
}

static bool read_made(void *unused, uintptr_t at, uintptr_t *word) {
  (void)unused;
  if (at % 8 != 0 || at - STACK >= sizeof stack) return false;
  *word = stack[(at - STACK) / 8];
  return true;
}

static cfi_registers_t r;
static bool stays; /* the file with the table */
/* From the function's instruction `at`, as a signal finds it, or where a call returns to. */
static bool step_at(unsigned at, bool is_interrupted) {
  for (unsigned i = 0; i < WORDS; i++) stack[i] = 0x5000 + i;
  for (unsigned i = 0; i < CFI_REGISTERS; i++) r.at[i] = 0x9000 + i;
  r.at[STACK_REGISTER] = STACK;
  r.at[CFI_IP] = (uintptr_t)code + FUNCTION + at;
  r.is_interrupted = is_interrupted;
  return cfi_step(table, stays, &r, read_made, NULL);
}
/* The CFA is RSP + 8 and the return address below it, as at a function's first instruction. */
#define AT_ENTRY "\x0c\x07\x08\x90\x01"
static bool step_with(code_t own) {
  describe_as(usual, CODE(AT_ENTRY), own);
  return step_at(10, true);
}

TEST(cfi, at_its_entry_a_function_has_only_its_return_address_on_the_stack, "") {
  CHECK(step_with(CODE("")));
  CHECK_EQ(r.at[CFI_IP], (uintptr_t)0x5000);
  CHECK_EQ(r.at[CFI_SP], (uintptr_t)STACK + 8);
  CHECK_EQ(r.at[FRAME_REGISTER], (uintptr_t)0x9006);
  CHECK(!r.is_interrupted);
}

TEST(cfi, a_rule_holds_from_its_instruction_on, "") {
  describe_as(usual, CODE(AT_ENTRY), CODE("\x44\x0e\x10\x86\x02")); /* from byte 4 on */
  CHECK(step_at(3, true) && r.at[FRAME_REGISTER] == 0x9006);
  CHECK(step_at(4, true) && r.at[FRAME_REGISTER] == 0x5000 && r.at[CFI_IP] == 0x5001);
  CHECK(step_at(4, false) && r.at[FRAME_REGISTER] == 0x9006); /* the call is before */
  CHECK(step_at(FUNCTION_SIZE, false) && r.at[FRAME_REGISTER] == 0x5000);
  CHECK(!step_at(FUNCTION_SIZE, true) && !step_at(0, false));
}

TEST(cfi, instructions_advance_by_one_two_and_four_bytes_and_in_units, "") {
  static const code_t own[] = {CODE("\x02\x06\x0e\x10"), CODE("\x03\x06\0\x0e\x10"),
                               CODE("\x04\x06\0\0\0\x0e\x10"), CODE("\x46\x0e\x10")};
  variant_t pairs = usual;
  for (unsigned i = 0; i < 4; i++) {
    describe_as(usual, CODE(AT_ENTRY), own[i]);
    CHECK(step_at(5, true) && r.at[CFI_IP] == 0x5000);
    CHECK(step_at(6, true) && r.at[CFI_IP] == 0x5001);
    pairs.unit = 2;
    describe_as(pairs, CODE(AT_ENTRY), own[i]);
    CHECK(step_at(11, true) && r.at[CFI_IP] == 0x5000);
    CHECK(step_at(12, true) && r.at[CFI_IP] == 0x5001);
  }
}

TEST(cfi, every_kind_of_rule_finds_its_register, "") {
  CHECK(step_with(CODE("\x0e\x20\x05\x0c\x02")) && r.at[12] == 0x5002);        /* at an offset */
  CHECK(step_with(CODE("\x0e\x20\x11\x0c\x7f")) && r.at[12] == 0x5005);        /* a signed one */
  CHECK(step_with(CODE("\x14\x0c\x02")) && r.at[12] == STACK + 8 - 16);        /* is that address */
  CHECK(step_with(CODE("\x15\x0c\x7e")) && r.at[12] == STACK + 8 + 16);        /* signed */
  CHECK(step_with(CODE("\x09\x0c\x03")) && r.at[12] == 0x9003);                /* in another */
  CHECK(step_with(CODE("\x05\x0c\x01\x08\x0c")) && r.at[12] == 0x900c);        /* the same */
  CHECK(step_with(CODE("\x07\x10")) && r.at[CFI_IP] == 0);                     /* nowhere */
  CHECK(step_with(CODE("\x10\x0c\x02\x23\x08")) && r.at[12] == 0x5002);        /* by expression */
  CHECK(step_with(CODE("\x16\x0c\x02\x23\x08")) && r.at[12] == STACK + 8 + 8); /* is its value */
  CHECK(step_with(CODE("\x2e\x0c")) && r.at[CFI_IP] == 0x5000);                /* says nothing */
}

TEST(cfi, the_frames_address_is_found_by_each_kind_of_rule, "") {
  CHECK(step_with(CODE("\x0e\x18")) && r.at[CFI_SP] == STACK + 24);
  CHECK(step_with(CODE("\x13\x7d")) && r.at[CFI_SP] == STACK + 24);
  CHECK(step_with(CODE("\x12\x07\x7d")) && r.at[CFI_SP] == STACK + 24);
  CHECK(step_with(CODE("\x0f\x02\x77\x18")) && r.at[CFI_SP] == STACK + 24);
  CHECK(!step_with(CODE("\x0d\x06"))); /* RBP + 8, where no stack is */
}

TEST(cfi, a_rule_is_restored_to_the_functions_first_and_rules_as_they_were_remembered, "") {
  CHECK(step_with(CODE("\x86\x01\xc6")) && r.at[FRAME_REGISTER] == 0x9006);
  CHECK(step_with(CODE("\x86\x01\x06\x06")) && r.at[FRAME_REGISTER] == 0x9006);
  CHECK(step_with(CODE("\x0e\x10\x0a\x0e\x18\x0b")) && r.at[CFI_SP] == STACK + 16);
  CHECK(!step_with(CODE("\x0b")));
  CHECK(step_with(CODE("\x0a\x0a\x0a\x0b")));
  CHECK(!step_with(CODE("\x0a\x0a\x0a\x0a")));
}

TEST(cfi, expressions_compute, "") {
  /* of the CFA, STACK + 8: */
  CHECK(step_with(CODE("\x16\x03\x03\x30\x35\x22")) && r.at[3] == 5);  /* lit0 lit5 plus */
  CHECK(step_with(CODE("\x16\x03\x03\x3b\x35\x1c")) && r.at[3] == 6);  /* lit11 lit5 minus */
  CHECK(step_with(CODE("\x16\x03\x03\x3b\x36\x1a")) && r.at[3] == 2);  /* and */
  CHECK(step_with(CODE("\x16\x03\x03\x33\x32\x24")) && r.at[3] == 12); /* shl */
  CHECK(step_with(CODE("\x16\x03\x03\x33\x33\x2a")) && r.at[3] == 1);  /* ge */
  CHECK(step_with(CODE("\x16\x03\x03\x33\x34\x2a")) && r.at[3] == 0);
  CHECK(step_with(CODE("\x16\x03\x02\x08\xff")) && r.at[3] == 255);         /* const1u */
  CHECK(step_with(CODE("\x16\x03\x02\x09\xff")) && r.at[3] == UINTPTR_MAX); /* const1s */
  CHECK(step_with(CODE("\x16\x03\x03\x0b\xfe\xff")) && r.at[3] == UINTPTR_MAX - 1);
  CHECK(step_with(CODE("\x16\x03\x05\x0c\x01\x02\x03\x04")) && r.at[3] == 0x04030201);
  CHECK(step_with(CODE("\x16\x03\x03\x77\x08\x06")) && r.at[3] == 0x5001); /* breg7 8, deref */
  CHECK(!step_with(CODE("\x16\x03\x02\x30\x06")));                         /* deref of 0 */
  CHECK(!step_with(CODE("\x16\x03\x01\x9c")));                             /* unknown */
  CHECK(!step_with(
    CODE("\x16\x03\x10\x30\x30\x30\x30\x30\x30\x30\x30\x30\x30\x30\x30\x30\x30\x30\x30")));
}

/* The registers of the memo are those of the processor, so on x86-64 alone. */
TEST(cfi, rules_are_used_again_unless_they_are_mixed_or_another_table_is_there, "") {
  if (kept_ones[0] != RETURN_REGISTER) return;
  memo_t *m = find_memo((uintptr_t)code + FUNCTION + 10);
  CHECK(step_with(CODE("\x0e\x20\x86\x02")) && r.at[FRAME_REGISTER] == 0x5002);
  uint64_t kept = atomic64_load_relaxed(&m->kept), frame = atomic64_load_relaxed(&m->frame);
  CHECK_EQ(kept, (uint64_t)0x0201);
  atomic64_store_relaxed(&m->kept, 0x0301); /* as another thread's */
  CHECK(step_at(10, true) && r.at[FRAME_REGISTER] == 0x5002);
  CHECK_EQ(atomic64_load_relaxed(&m->kept), kept);
  uint64_t seal = seal_of(table, false, (uintptr_t)code + FUNCTION + 10, 0x0301, frame);
  atomic64_store_relaxed(&m->kept, 0x0301);
  atomic64_store_relaxed(&m->seal, seal);
  CHECK(step_at(10, true) && r.at[FRAME_REGISTER] == 0x5001); /* these are used */
  CHECK(step_with(CODE("\x0e\x20\x86\x04")) && r.at[FRAME_REGISTER] == 0x5000);
  r.at[STACK_REGISTER] = STACK + 8 * WORDS - 8; /* its return address cannot be read */
  r.at[CFI_IP] = (uintptr_t)code + FUNCTION + 10;
  cfi_registers_t before = r;
  CHECK(!cfi_step(table, false, &r, read_made, NULL));
  CHECK(memcmp(&before, &r, sizeof r) == 0);
}

TEST(cfi, in_a_file_that_stays_no_description_is_read_twice, "") {
  if (kept_ones[0] != RETURN_REGISTER) return;
  stays = true;
  CHECK(step_with(CODE("\x0e\x20\x86\x02")) && r.at[FRAME_REGISTER] == 0x5002);
  CHECK(step_with(CODE("\x0e\x20\x86\x04")) && r.at[FRAME_REGISTER] == 0x5002);
  memo_t *m = find_memo((uintptr_t)code + FUNCTION + 10);
  atomic64_store_relaxed(&m->kept, 0x0301); /* mixed */
  CHECK(step_at(10, true) && r.at[FRAME_REGISTER] == 0x5000);
  uint64_t frame = atomic64_load_relaxed(&m->frame);
  atomic64_store_relaxed(&m->frame, frame ^ 1); /* as if the CFA were so far from RBP */
  CHECK(step_at(10, true) && r.at[FRAME_REGISTER] == 0x5000);
  CHECK_EQ(atomic64_load_relaxed(&m->frame), frame);
  stays = false;
  CHECK(step_with(CODE("\x0e\x20\x86\x02")) && r.at[FRAME_REGISTER] == 0x5002);
}

TEST(cfi, a_seal_tells_descriptions_apart_by_each_bit_and_by_where_they_are, "") {
  uint8_t entry[40] = {36}, other[40] = {36};
  for (size_t a = 32; a < 320; a++) {
    for (size_t b = 32; b < 320; b++) { /* also where bits of two words could cancel each other */
      memset(other + 4, 0, sizeof other - 4);
      other[a / 8] ^= (uint8_t)(1 << a % 8);
      other[b / 8] ^= (uint8_t)(1 << b % 8);
      CHECK((seal_entry(1, entry) == seal_entry(1, other)) == (a == b));
    }
  }
  step_with(CODE("\x0e\x20\x86\x02"));
  uint64_t seal = seal_of(table, false, 1000, 1, 0);
  row_of_header_t *row = (void *)(table + HEADER_ROWS);
  memmove(table + HEADER_ROWS + sizeof *row + 16, table + HEADER_ROWS + sizeof *row, used);
  row->fde += 16;
  CHECK(seal != 0 && seal_of(table, false, 1000, 1, 0) != seal);
}

TEST(cfi, of_a_long_description_nothing_is_remembered, "") {
  if (kept_ones[0] != RETURN_REGISTER) return;
  static char nops[2000] = "\x0e\x20\x86\x02";
  memo_t *m = find_memo((uintptr_t)code + FUNCTION + 10);
  CHECK(step_with((code_t){nops, sizeof nops}) && r.at[FRAME_REGISTER] == 0x5002);
  CHECK_EQ(atomic64_load_relaxed(&m->seal), 0u);
  CHECK(step_at(10, true) && r.at[FRAME_REGISTER] == 0x5002);
}

TEST(cfi, what_is_not_known_here_leaves_the_registers_as_they_were, "") {
  cfi_registers_t before;
  CHECK_EQ(step_with(CODE("\x2d")), SIGNS_RETURNS);
  CHECK(!step_with(CODE("\x2c")));
  before = r;
  describe_as(usual, CODE(AT_ENTRY), CODE(""));
  table[0] = 2; /* another version of the header */
  CHECK(!step_at(10, true));
  CHECK(memcmp(&before, &r, sizeof r) == 0);
  variant_t other = usual;
  other.version = 4;
  describe_as(other, CODE(AT_ENTRY), CODE(""));
  CHECK(!step_at(10, true));
  other = usual;
  other.letters = "zRX";
  describe_as(other, CODE(AT_ENTRY), CODE(""));
  CHECK(!step_at(10, true));
  other = usual;
  other.is_long = true;
  describe_as(other, CODE(AT_ENTRY), CODE(""));
  CHECK(!step_at(10, true));
}

TEST(cfi, a_signal_frame_and_a_personality_are_read_over, "") {
  variant_t v = usual;
  v.letters = "zPLRS";
  v.values = "\x03"
             "abcd"
             "\x03"
             "\x1b";
  v.version = 3;
  describe_as(v, CODE(AT_ENTRY), CODE("\x80")); /* the byte: what a handler's table would be */
  CHECK(step_at(10, true));
  CHECK(r.is_interrupted);
}

TEST(cfi, the_function_is_found_among_many, "") {
  describe_as(usual, CODE(AT_ENTRY), CODE(""));
  CHECK(step_at(0, true) && step_at(FUNCTION_SIZE - 1, true));
  table[8] = 0; /* a table of none */
  CHECK(!step_at(10, true));
}
