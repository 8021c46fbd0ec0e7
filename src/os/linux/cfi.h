/* cfi.h - a caller's registers, by a function's unwind table                            layer 1: os
 * Owns:    rules that were found before.   Called by: unwind.c.   Calls: nothing.
 * Threads: any, each with its own registers. No lock, no allocation.
 *
 * Compilers describe each function's frame (DWARF 5, section 6.4, in the variant of .eh_frame):
 * where the caller's registers are at each instruction. A linker adds .eh_frame_hdr, which finds
 * functions by address. The registers are those of the processor. */
#pragma once

#include "../../base/base.h"

/* DWARF's numbers in the processor's ABI. CFI_IP is a number that no table uses for anything else.
 * On x86-64 it is the return address's; elsewhere the return address is in a register, CFI_RA.
 * CFI_KEPT: the return address, and registers that calls preserve. */
#if defined(__aarch64__)
#define CFI_KEPT CFI_RA, CFI_FP, 19, 20, 21, 22, 23, 24
enum { CFI_FP = 29, CFI_RA = 30, CFI_SP = 31, CFI_IP = 32, CFI_REGISTERS };
#elif defined(__riscv)
#define CFI_KEPT CFI_RA, CFI_FP, 9, 18, 19, 20, 21, 22
enum { CFI_RA = 1, CFI_SP = 2, CFI_FP = 8, CFI_IP = 32, CFI_REGISTERS };
#else
#define CFI_KEPT CFI_IP, CFI_FP, 3, 12, 13, 14, 15
enum { CFI_FP = 6, CFI_SP = 7, CFI_IP = 16, CFI_REGISTERS };
#endif
typedef struct {
  uintptr_t at[CFI_REGISTERS];
  bool is_interrupted; /* by a signal: the next instruction is at CFI_IP; otherwise a call returns
                        * there */
} cfi_registers_t;

/* Reads a word of the stack; false: it cannot. */
typedef bool cfi_read_t(void *context, uintptr_t address, uintptr_t *word);

/* Makes `r` the caller's; CFI_IP is 0 if there is none. `header` is the .eh_frame_hdr of the file
 * whose code is at CFI_IP; `stays`: that file is never unloaded. False, with `r` unchanged: the
 * table says nothing, or something unknown here, or the stack cannot be read. */
hidden bool cfi_step(const void *header, bool stays, cfi_registers_t *r, cfi_read_t *read,
                     void *context);
