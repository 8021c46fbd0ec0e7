/* unwind.c - call stacks, by unwind tables and frame pointers                           layer 1: os
 * Owns:    the address of _dl_find_object, where the program's file is.   Called by: sample.c,
 *          guard.c, trace.c, lifecycle.c.
 *          Calls: cfi.c, os, _dl_find_object; in os_backtrace_start alone dlsym, getauxval.
 * Threads: any, also in signal handlers and before main. No lock, no allocation, except in
 *          os_backtrace_start, for the thread that loads the library.
 *
 * The file with this code finds its own table by the linker's __ehdr_start, and the program's by
 * what the kernel says of it. Neither is unloaded. _dl_find_object finds the tables of other files
 * without a lock; glibc has it from 2.35 on. A function without a table, such as a just-in-time
 * compiler's, is assumed to keep a frame pointer. A program may make its own stacks, so no word is
 * read from a page that is not there. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <elf.h>
#include <signal.h>
#include <sys/auxv.h>
#include <ucontext.h>

#include "cfi.h"
#include "../os.h"

#pragma weak dlsym

#if defined(FH_SHARED)
enum { IS_SHARED = true };
#else
enum { IS_SHARED = false };
#endif
enum { OWN_MOST = 64 }; /* calls inside the shared library */

#if defined(__x86_64__) || defined(__aarch64__) || (defined(__riscv) && __riscv_xlen == 64)

typedef struct { /* from glibc's dlfcn.h */
  unsigned long long flags;
  void *from, *to, *link_map, *table;
  unsigned long long reserved[7];
} found_object_t;
typedef int find_object_t(void *address, found_object_t *found);
static atomic_ptr_t find_object; /* NULL: there is none. relaxed: only libc's code */

extern hidden const Elf64_Ehdr __ehdr_start;

typedef struct {
  const void *table;
  uintptr_t code, code_size;
} file_t;

static file_t read_file(uintptr_t base, const Elf64_Phdr *part, size_t count) {
  file_t f = {NULL, 0, 0};
  for (size_t i = 0; i < count; i++) { /* Bound: a dozen */
    if (part[i].p_type == PT_GNU_EH_FRAME) f.table = (const void *)(base + part[i].p_vaddr);
    if (part[i].p_type != PT_LOAD || (part[i].p_flags & PF_X) == 0) continue;
    f.code = base + part[i].p_vaddr;
    f.code_size = part[i].p_memsz;
  }
  return f;
}

static file_t find_own_file(void) {
  uintptr_t base = (uintptr_t)&__ehdr_start;
  const Elf64_Phdr *part = (const void *)(base + __ehdr_start.e_phoff);
  for (unsigned i = 0; i < __ehdr_start.e_phnum; i++) /* Bound: a dozen */
    if (part[i].p_type == PT_LOAD && part[i].p_offset == 0) base -= part[i].p_vaddr;
  return read_file(base, part, __ehdr_start.e_phnum);
}

/* relaxed: 0, then constant. All stay 0 if the program has no table. */
static atomic64_t program_table, program_code, program_code_size;

static void find_program_file(void) {
  const Elf64_Phdr *part = (const void *)getauxval(AT_PHDR);
  size_t count = part == NULL ? 0 : getauxval(AT_PHNUM);
  uintptr_t base = 0;
  for (size_t i = 0; i < count; i++) /* Bound: a dozen */
    if (part[i].p_type == PT_PHDR) base = (uintptr_t)part - part[i].p_vaddr;
  file_t f = read_file(base, part, count);
  bool is_there =
    getauxval(AT_ENTRY) - f.code < f.code_size; /* false if the file does not give its base */
  if (f.table == NULL || !is_there) return;
  atomic64_store_relaxed(&program_table, (uintptr_t)f.table);
  atomic64_store_relaxed(&program_code, f.code);
  atomic64_store_relaxed(&program_code_size, f.code_size);
}

static bool is_in(const file_t *f, uintptr_t ip) { return ip - f->code < f->code_size; }

/* NULL: no table is known. `*stays`: its file is never unloaded. */
static const void *find_unwind_table(const file_t *own, uintptr_t ip, bool *stays) {
  found_object_t found;
  find_object_t *find = (find_object_t *)atomic_ptr_load_relaxed(&find_object);
  file_t program = {(const void *)atomic64_load_relaxed(&program_table),
                    atomic64_load_relaxed(&program_code),
                    atomic64_load_relaxed(&program_code_size)};
  *stays = true;
  if (is_in(own, ip)) return own->table;
  if (is_in(&program, ip) && program.table != NULL) return program.table;
  *stays = false;
  return find != NULL && find((void *)ip, &found) == 0 ? found.table : NULL;
}

void os_backtrace_start(void) {
  if (dlsym == NULL || atomic_ptr_load_relaxed(&find_object) != NULL) return;
  find_program_file();
  atomic_ptr_store_relaxed(&find_object, dlsym(RTLD_DEFAULT, "_dl_find_object"));
}

/* The part of the stack that is known to be there. */
typedef struct {
  uintptr_t from, to;
} readable_t;

static bool read_stack(void *readable, uintptr_t at, uintptr_t *word) {
  readable_t *r = readable;
  if (at % sizeof *word != 0) return false;
  if (unlikely(at - r->from >= r->to - r->from)) {
    uintptr_t page = at & ~(uintptr_t)(os_page_size() - 1);
    if (!os_is_there((const void *)at)) return false;
    if (page != r->to) r->from = page;
    r->to = page + os_page_size();
  }
  *word = *(const uintptr_t *)at;
  return true;
}

/* For each processor. FRAME_WORDS: how far a frame pointer points behind the two words of its
 * frame. read_registers: the current values of those that calls preserve. unsigned_address: a
 * return address without its signature. */
enum { FRAME_WORDS = CFI_SP == 2 ? 2 : 0 }; /* riscv: behind both words */
#if defined(__x86_64__)
static always_inline void read_registers(cfi_registers_t *r) {
  __asm__ volatile("movq %%rbx, 3*8(%0)\n\t"
                   "movq %%rbp, 6*8(%0)\n\t"
                   "movq %%rsp, 7*8(%0)\n\t"
                   "movq %%r12, 12*8(%0)\n\t"
                   "movq %%r13, 13*8(%0)\n\t"
                   "movq %%r14, 14*8(%0)\n\t"
                   "movq %%r15, 15*8(%0)\n\t"
                   "leaq 0(%%rip), %%rcx\n\t"
                   "movq %%rcx, 16*8(%0)"
                   :
                   : "r"(r->at)
                   : "rcx", "memory");
}
static uintptr_t unsigned_address(uintptr_t ip) { return ip; }
#elif defined(__aarch64__)
static always_inline void read_registers(cfi_registers_t *r) {
  __asm__ volatile("stp x19, x20, [%0, #19*8]\n\t"
                   "stp x21, x22, [%0, #21*8]\n\t"
                   "stp x23, x24, [%0, #23*8]\n\t"
                   "stp x25, x26, [%0, #25*8]\n\t"
                   "stp x27, x28, [%0, #27*8]\n\t"
                   "stp x29, x30, [%0, #29*8]\n\t"
                   "mov x16, sp\n\t"
                   "adr x17, .\n\t"
                   "stp x16, x17, [%0, #31*8]"
                   :
                   : "r"(r->at)
                   : "x16", "x17", "memory");
}
static uintptr_t unsigned_address(uintptr_t ip) {
  register uintptr_t x30 __asm__("x30") = ip;
  __asm__("hint 7 /* xpaclri */" : "+r"(x30));
  return x30;
}
#else
#define RISCV_STORE(n) "sd x" #n ", " #n "*8(%0)\n\t"
static always_inline void read_registers(cfi_registers_t *r) {
  __asm__ volatile(RISCV_STORE(1) RISCV_STORE(2) RISCV_STORE(8) RISCV_STORE(9) RISCV_STORE(18)
                     RISCV_STORE(19) RISCV_STORE(20) RISCV_STORE(21) RISCV_STORE(22) RISCV_STORE(23)
                       RISCV_STORE(24) RISCV_STORE(25) RISCV_STORE(26)
                         RISCV_STORE(27) "auipc t0, 0\n\t"
                                         "sd t0, 32*8(%0)"
                   :
                   : "r"(r->at)
                   : "t0", "memory");
}
static uintptr_t unsigned_address(uintptr_t ip) { return ip; }
#endif

/* The caller's registers, if the function at CFI_IP keeps a frame pointer. */
static bool step_by_frame(cfi_registers_t *r, readable_t *readable) {
  const uintptr_t size_most = MiB(16);
  uintptr_t frame = r->at[CFI_FP] - FRAME_WORDS * sizeof frame, ip, next;
  if (frame - r->at[CFI_SP] > size_most) return false;
  if (!read_stack(readable, frame, &next) || !read_stack(readable, frame + sizeof next, &ip))
    return false;
  r->at[CFI_FP] = next;
  r->at[CFI_SP] = frame + 2 * sizeof next;
  r->at[CFI_IP] = ip;
  r->is_interrupted = false;
  return true;
}

/* Steps to the code that a signal interrupted. Only the two instructions by which the handler
 * returns show it: then the kernel's siginfo and ucontext lie on the stack. */
static bool step_by_signal(cfi_registers_t *r, readable_t *readable) {
#if defined(__x86_64__) /* there a table shows it */
  return (void)r, (void)readable, false;
#else
#if defined(__aarch64__)
  static const uint32_t come_back[] = {0xd2801168, 0xd4000001}; /* mov x8, 139; svc 0 */
  const size_t first = offsetof(ucontext_t, uc_mcontext.regs), ip = 32;
#else
  static const uint32_t come_back[] = {0x08b00893, 0x00000073};   /* li a7, 139; ecall */
  const size_t first = offsetof(ucontext_t, uc_mcontext), ip = 0; /* in the place of x0 */
#endif
  const void *code = (const void *)r->at[CFI_IP];
  if (!os_is_there(code) || memcmp(code, come_back, sizeof come_back) != 0) return false;
  uintptr_t at = r->at[CFI_SP] + sizeof(siginfo_t) + first, word;
  for (unsigned i = 0; i < CFI_REGISTERS; i++) {
    if (!read_stack(readable, at + i * sizeof word, &word)) return false;
    if (i != CFI_IP || i == ip) r->at[i] = word;
  }
  r->at[CFI_IP] = r->at[ip];
  return r->is_interrupted = true;
#endif
}

unsigned os_backtrace(uintptr_t *frames, unsigned most, bool by_tables) {
  file_t own = find_own_file();
  cfi_registers_t r = {{0}, true};
  unsigned count = 0, own_count = 0;
  read_registers(&r);
  readable_t readable = {r.at[CFI_SP], (r.at[CFI_SP] | (os_page_size() - 1)) + 1};
  while (count < most && own_count < OWN_MOST) { /* Bound: `most` and OWN_MOST */
    uintptr_t ip = r.at[CFI_IP], stack = r.at[CFI_SP];
    bool is_ours = is_in(&own, ip), was_interrupted = r.is_interrupted, stays;
    if (IS_SHARED && is_ours && count == 0) own_count++;
    else frames[count++] = r.is_interrupted ? ip + 1 : ip; /* as if a call returned there */
    const void *table = by_tables || is_ours ? find_unwind_table(&own, ip, &stays) : NULL;
    bool is_found = table != NULL && cfi_step(table, stays, &r, read_stack, &readable);
    if (!is_found && !step_by_signal(&r, &readable) && !step_by_frame(&r, &readable)) break;
    r.at[CFI_IP] = unsigned_address(r.at[CFI_IP]);
    if (r.at[CFI_IP] == 0) break;
    /* Each frame has its own place, unless its function calls nothing and was interrupted. */
    if (r.at[CFI_SP] < stack + !was_interrupted && !r.is_interrupted) break;
  }
  return count;
}

#else /* it does not know other processors' registers */
void os_backtrace_start(void) {}
unsigned os_backtrace(uintptr_t *frames, unsigned most, bool by_tables) {
  return (void)frames, (void)most, (void)by_tables, 0;
}
#endif
