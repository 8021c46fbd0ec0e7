/* new.c - C++ operator new and delete, all forms, by names of the Itanium ABI          layer 8: api
 * Owns:    nothing.   Called by: C++ programs, lifecycle.c.
 *          Calls: heap, arena, the C++ runtime if there is one.
 * Threads: any. When memory is out, the C++ runtime provides the new-handler and throws; it takes
 *          its own locks. Everything from the runtime is weak: a C program needs none of it. A
 *          runtime that came with a plug-in after the library was loaded is looked up at that
 *          moment. */
#if defined(__ELF__) && !defined(_WIN32)
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "api.h"

#include <dlfcn.h>
#include <unwind.h>

/* The names below have size_t as unsigned long. Where it is unsigned int they have a j. */
#if !defined(__LP64__)
#define _Znwm _Znwj
#define _Znam _Znaj
#define _ZnwmSt11align_val_t _ZnwjSt11align_val_t
#define _ZnamSt11align_val_t _ZnajSt11align_val_t
#define _ZnwmRKSt9nothrow_t _ZnwjRKSt9nothrow_t
#define _ZnamRKSt9nothrow_t _ZnajRKSt9nothrow_t
#define _ZnwmSt11align_val_tRKSt9nothrow_t _ZnwjSt11align_val_tRKSt9nothrow_t
#define _ZnamSt11align_val_tRKSt9nothrow_t _ZnajSt11align_val_tRKSt9nothrow_t
#define _ZdlPvm _ZdlPvj
#define _ZdaPvm _ZdaPvj
#define _ZdlPvmSt11align_val_t _ZdlPvjSt11align_val_t
#define _ZdaPvmSt11align_val_t _ZdaPvjSt11align_val_t
#define _Znwm12__hot_cold_t _Znwj12__hot_cold_t
#define _Znam12__hot_cold_t _Znaj12__hot_cold_t
#define _ZnwmSt11align_val_t12__hot_cold_t _ZnwjSt11align_val_t12__hot_cold_t
#define _ZnamSt11align_val_t12__hot_cold_t _ZnajSt11align_val_t12__hot_cold_t
#define _ZnwmRKSt9nothrow_t12__hot_cold_t _ZnwjRKSt9nothrow_t12__hot_cold_t
#define _ZnamRKSt9nothrow_t12__hot_cold_t _ZnajRKSt9nothrow_t12__hot_cold_t
#define _ZnwmSt11align_val_tRKSt9nothrow_t12__hot_cold_t                                           \
  _ZnwjSt11align_val_tRKSt9nothrow_t12__hot_cold_t
#define _ZnamSt11align_val_tRKSt9nothrow_t12__hot_cold_t                                           \
  _ZnajSt11align_val_tRKSt9nothrow_t12__hot_cold_t
#endif

#pragma weak dlsym

typedef void new_handler_t(void);
typedef new_handler_t *new_get_handler_t(void);
typedef void new_throw_t(void);

#define NEW_RUNTIME __attribute__((weak, visibility("default")))
extern new_handler_t *_ZSt15get_new_handlerv(void) NEW_RUNTIME; /* std::get_new_handler() */
extern void _ZSt17__throw_bad_allocv(void) NEW_RUNTIME;         /* std::__throw_bad_alloc() */
extern void *__cxa_allocate_exception(size_t size) NEW_RUNTIME;
extern void __cxa_throw(void *object, void *type, void (*destroy)(void *)) NEW_RUNTIME;
extern void *__cxa_begin_catch(void *exception) NEW_RUNTIME;
extern void __cxa_end_catch(void) NEW_RUNTIME;
extern char _ZTISt9bad_alloc[] NEW_RUNTIME;                /* typeid(std::bad_alloc) */
extern char _ZTVSt9bad_alloc[] NEW_RUNTIME;                /* its virtual functions */
extern void _ZNSt9bad_allocD1Ev(void *object) NEW_RUNTIME; /* its destructor */

/* A function of a runtime that was loaded later than the library, or out of its sight. dlopen is
 * found by name: otherwise the linker would warn of it in every static program. */
static void *find_in_runtime(const char *name) {
  static const char *const runtimes[] = {"libstdc++.so.6", "libc++abi.so.1", "libc++.so.1"};
  if (dlsym == NULL) return NULL;
  void *(*open)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_DEFAULT, "dlopen");
  if (open == NULL) return NULL;
  for (unsigned i = 0; i < ARRAY_LENGTH(runtimes); i++) {
    /* keeps it loaded, as it is about to be used */
    void *runtime = open(runtimes[i], RTLD_LAZY | RTLD_NOLOAD);
    void *found = runtime != NULL ? dlsym(runtime, name) : NULL;
    if (found != NULL) return found;
  }
  return NULL;
}

static new_handler_t *current_handler(void) {
  new_get_handler_t *get = _ZSt15get_new_handlerv;
  if (get == NULL) get = (new_get_handler_t *)find_in_runtime("_ZSt15get_new_handlerv");
  return get != NULL ? get() : NULL;
}

/* A static program holds only what it uses: without __throw_bad_alloc we make the object by hand. A
 * bad_alloc is a pointer to its virtual functions, which follow two words of the table. */
_Noreturn static void throw_out_of_memory(size_t size) {
  new_throw_t *throw_bad_alloc = _ZSt17__throw_bad_allocv;
  if (throw_bad_alloc == NULL)
    throw_bad_alloc = (new_throw_t *)find_in_runtime("_ZSt17__throw_bad_allocv");
  if (throw_bad_alloc != NULL) throw_bad_alloc();
  if (__cxa_throw != NULL && __cxa_allocate_exception != NULL && _ZTISt9bad_alloc != NULL &&
      _ZTVSt9bad_alloc != NULL && _ZNSt9bad_allocD1Ev != NULL) {
    void **object = __cxa_allocate_exception(sizeof *object);
    *object = _ZTVSt9bad_alloc + 2 * sizeof(void *);
    __cxa_throw(object, _ZTISt9bad_alloc, _ZNSt9bad_allocD1Ev);
  }
  api_fatal_size("out of memory, and no C++ runtime to throw std::bad_alloc; bytes asked for", size,
                 "operator new");
}

/* ---- a call that throws, under a form of new that must not -----------------------------------
 * new_call_returns: false if `call` threw; the exception ends there. C has no catch, so the frame
 * has a personality of its own that takes every exception and goes on at new_call_threw. A forced
 * unwinding (the end of a thread) passes. */

typedef void new_call_t(void *context);
hidden bool new_call_returns(new_call_t *call, void *context);

#if defined(__x86_64__) || defined(__aarch64__) || (defined(__riscv) && __riscv_xlen == 64)

#pragma weak _Unwind_SetGR
#pragma weak _Unwind_SetIP
extern hidden char new_call_threw[];
hidden _Unwind_Reason_Code new_personality(
  int version, _Unwind_Action actions, _Unwind_Exception_Class class,
  struct _Unwind_Exception *exception, struct _Unwind_Context *context);
hidden void new_swallow(void *exception);

__attribute__((used)) _Unwind_Reason_Code new_personality(
  int version, _Unwind_Action actions, _Unwind_Exception_Class class,
  struct _Unwind_Exception *exception, struct _Unwind_Context *context) {
  (void)version, (void)class;
  if (_Unwind_SetGR == NULL || _Unwind_SetIP == NULL) return _URC_CONTINUE_UNWIND;
  if ((actions & _UA_SEARCH_PHASE) != 0) return _URC_HANDLER_FOUND;
  if ((actions & _UA_HANDLER_FRAME) == 0) return _URC_CONTINUE_UNWIND;
  _Unwind_SetGR(context, __builtin_eh_return_data_regno(0), (uintptr_t)exception);
  _Unwind_SetIP(context, (uintptr_t)new_call_threw);
  return _URC_INSTALL_CONTEXT;
}

__attribute__((used)) void new_swallow(void *exception) {
  void *(*begin)(void *) = __cxa_begin_catch;
  void (*end)(void) = __cxa_end_catch;
  if (begin == NULL) begin = (void *(*)(void *))find_in_runtime("__cxa_begin_catch");
  if (end == NULL) end = (void (*)(void))find_in_runtime("__cxa_end_catch");
  if (begin == NULL || end == NULL) return;
  begin(exception);
  end();
}

#define CALL_BEGINS                                                                                \
  ".pushsection .text.unlikely, \"ax\", @progbits\n"                                               \
  ".globl new_call_returns, new_call_threw\n"                                                      \
  ".hidden new_call_returns, new_call_threw\n"                                                     \
  ".type new_call_returns, @function\n"                                                            \
  ".p2align 2\n"                                                                                   \
  "new_call_returns:\n"                                                                            \
  "  .cfi_startproc\n"                                                                             \
  "  .cfi_personality 0x1b, new_personality\n"
#define CALL_ENDS "  .cfi_endproc\n.size new_call_returns, . - new_call_returns\n.popsection\n"
#if defined(__x86_64__)
__asm__(CALL_BEGINS "  endbr64\n"
                    "  subq $8, %rsp\n"
                    "  .cfi_def_cfa_offset 16\n"
                    "  movq %rdi, %rax\n"
                    "  movq %rsi, %rdi\n"
                    "  call *%rax\n"
                    "  movl $1, %eax\n"
                    "1: addq $8, %rsp\n"
                    "  .cfi_def_cfa_offset 8\n"
                    "  ret\n"
                    "new_call_threw:\n"
                    "  .cfi_def_cfa_offset 16\n"
                    "  movq %rax, %rdi\n"
                    "  call new_swallow\n"
                    "  xorl %eax, %eax\n"
                    "  jmp 1b\n" CALL_ENDS);
#elif defined(__aarch64__)
__asm__(CALL_BEGINS "  hint #34\n" /* bti c */
                    "  stp x29, x30, [sp, #-16]!\n"
                    "  .cfi_def_cfa_offset 16\n"
                    "  .cfi_offset 29, -16\n"
                    "  .cfi_offset 30, -8\n"
                    "  mov x9, x0\n"
                    "  mov x0, x1\n"
                    "  blr x9\n"
                    "  mov w0, #1\n"
                    "1: ldp x29, x30, [sp], #16\n"
                    "  .cfi_remember_state\n"
                    "  .cfi_restore 30\n"
                    "  .cfi_restore 29\n"
                    "  .cfi_def_cfa_offset 0\n"
                    "  ret\n"
                    "new_call_threw:\n"
                    "  .cfi_restore_state\n"
                    "  .cfi_def_cfa_offset 16\n"
                    "  hint #36\n" /* bti j: the unwinder arrives by a branch */
                    "  bl new_swallow\n"
                    "  mov w0, #0\n"
                    "  b 1b\n" CALL_ENDS);
#else
__asm__(CALL_BEGINS "  addi sp, sp, -16\n"
                    "  .cfi_def_cfa_offset 16\n"
                    "  sd ra, 8(sp)\n"
                    "  .cfi_offset ra, -8\n"
                    "  mv t1, a0\n"
                    "  mv a0, a1\n"
                    "  jalr t1\n"
                    "  li a0, 1\n"
                    "1: ld ra, 8(sp)\n"
                    "  addi sp, sp, 16\n"
                    "  .cfi_remember_state\n"
                    "  .cfi_restore ra\n"
                    "  .cfi_def_cfa_offset 0\n"
                    "  ret\n"
                    "new_call_threw:\n"
                    "  .cfi_restore_state\n"
                    "  call new_swallow\n"
                    "  li a0, 0\n"
                    "  j 1b\n" CALL_ENDS);
#endif

#else /* elsewhere the exception goes on to the caller */
bool new_call_returns(new_call_t *call, void *context) {
  call(context);
  return true;
}
#endif

/* ---- operators that the program has replaced -------------------------------------------------
 * It may replace some forms and not others. C++ says where these end: a nothrow form of new in the
 * one that throws, a sized or nothrow delete in the plain one. What is for arrays ends in what is
 * for single objects. The operators are weak, so that each call of one reaches the program's. */

#define OPERATOR FH_API __attribute__((weak))
/* type  name  arguments */
#define REPLACEABLE(X)                                                                             \
  X(void *, _Znwm, size_t size)                                                                    \
  X(void *, _Znam, size_t size)                                                                    \
  X(void *, _ZnwmSt11align_val_t, size_t size, size_t alignment)                                   \
  X(void *, _ZnamSt11align_val_t, size_t size, size_t alignment)                                   \
  X(void, _ZdlPv, void *p)                                                                         \
  X(void, _ZdaPv, void *p)                                                                         \
  X(void, _ZdlPvSt11align_val_t, void *p, size_t alignment)                                        \
  X(void, _ZdaPvSt11align_val_t, void *p, size_t alignment)
#define DECLARED(type, name, ...) OPERATOR type name(__VA_ARGS__);
REPLACEABLE(DECLARED)
/* Our operators, whatever the names above reach. */
#define OURS(type, name, ...)                                                                      \
  extern hidden type own##name(__VA_ARGS__) __attribute__((alias(TEXT_OF(name))));
REPLACEABLE(OURS)

static bool is_replaced; /* any of them; only the constructor writes it */

void api_operators_start(void) {
#define IS_REPLACED(type, name, ...) || name != own##name
  is_replaced = false REPLACEABLE(IS_REPLACED);
  if (is_replaced) fast_sized_steps = 0;
}

/* ---- new ------------------------------------------------------------------------------------- */

static void call_handler(void *handler) { ((new_handler_t *)handler)(); }

/* Does what the fast path cannot: asks the handler for memory until there is some, or no handler. A
 * form that must not throw also ends once the handler has thrown. */
static always_inline void *ask_handler(size_t alignment, size_t size, origin_t origin,
                                       bool may_throw) {
  bool is_array = origin == ORIGIN_NEW_ARRAY || origin == ORIGIN_ARRAY_ALIGNED;
  const char *call = is_array ? "operator new[]" : "operator new";
  for (;;) { /* Bound: the program's handler ends it */
    void *p = api_aligned_slow(alignment, size, origin, call);
    if (likely(p != NULL)) return p;
    new_handler_t *handler = current_handler();
    if (handler == NULL && may_throw) throw_out_of_memory(size);
    if (may_throw) handler();
    else if (handler == NULL || !new_call_returns(call_handler, (void *)handler)) return NULL;
  }
}
/* In the secure grade delete must be of the same kind as new. */
static cold void *one_or_throw(size_t size) { return ask_handler(1, size, ORIGIN_NEW, true); }
static cold void *one_aligned_or_throw(size_t alignment, size_t size) {
  return ask_handler(alignment, size, ORIGIN_NEW_ALIGNED, true);
}
static cold void *one_or_null(size_t size) { return ask_handler(1, size, ORIGIN_NEW, false); }
static cold void *one_aligned_or_null(size_t alignment, size_t size) {
  return ask_handler(alignment, size, ORIGIN_NEW_ALIGNED, false);
}
static cold void *array_or_throw(size_t size) {
  return ask_handler(1, size, ORIGIN_NEW_ARRAY, true);
}
static cold void *array_aligned_or_throw(size_t alignment, size_t size) {
  return ask_handler(alignment, size, ORIGIN_ARRAY_ALIGNED, true);
}
static cold void *array_or_null(size_t size) {
  return ask_handler(1, size, ORIGIN_NEW_ARRAY, false);
}
static cold void *array_aligned_or_null(size_t alignment, size_t size) {
  return ask_handler(alignment, size, ORIGIN_ARRAY_ALIGNED, false);
}

typedef struct {
  typeof(_Znwm) *new;
  typeof(_ZnwmSt11align_val_t) *new_aligned; /* or NULL */
  size_t size, alignment;
  void *block;
} attempt_t;
static void attempt(void *context) {
  attempt_t *a = context;
  a->block = a->new_aligned != NULL ? a->new_aligned(a->size, a->alignment) : a->new (a->size);
}
/* NULL also if `new` throws. */
static cold void *try_new(typeof(_Znwm) *new, size_t size) {
  attempt_t a = {.new = new, .size = size};
  return new_call_returns(attempt, &a) ? a.block : NULL;
}
static cold void *try_new_aligned(typeof(_ZnwmSt11align_val_t) *new, size_t size,
                                  size_t alignment) {
  attempt_t a = {.new_aligned = new, .size = size, .alignment = alignment};
  return new_call_returns(attempt, &a) ? a.block : NULL;
}

/* nw: new, na: new[], dl: delete, da: delete[]; m: size_t; RKSt9nothrow_t: const std::nothrow_t &,
 * which nobody reads; St11align_val_t: std::align_val_t. All forms are here: a forgotten one would
 * be the runtime's. */
void *_Znwm(size_t size) { return api_malloc_or(size, ORIGIN_NEW, one_or_throw); }
void *_Znam(size_t size) {
  if (unlikely(is_replaced)) return _Znwm(size);
  return api_malloc_or(size, ORIGIN_NEW_ARRAY, array_or_throw);
}
OPERATOR void *_ZnwmRKSt9nothrow_t(size_t size) {
  if (unlikely(is_replaced)) return try_new(_Znwm, size);
  return api_malloc_or(size, ORIGIN_NEW, one_or_null);
}
OPERATOR void *_ZnamRKSt9nothrow_t(size_t size) {
  if (unlikely(is_replaced)) return try_new(_Znam, size);
  return api_malloc_or(size, ORIGIN_NEW_ARRAY, array_or_null);
}
void *_ZnwmSt11align_val_t(size_t size, size_t alignment) {
  return api_aligned_or(alignment, size, ORIGIN_NEW_ALIGNED, one_aligned_or_throw);
}
void *_ZnamSt11align_val_t(size_t size, size_t alignment) {
  if (unlikely(is_replaced)) return _ZnwmSt11align_val_t(size, alignment);
  return api_aligned_or(alignment, size, ORIGIN_ARRAY_ALIGNED, array_aligned_or_throw);
}
OPERATOR void *_ZnwmSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment) {
  if (unlikely(is_replaced)) return try_new_aligned(_ZnwmSt11align_val_t, size, alignment);
  return api_aligned_or(alignment, size, ORIGIN_NEW_ALIGNED, one_aligned_or_null);
}
OPERATOR void *_ZnamSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment) {
  if (unlikely(is_replaced)) return try_new_aligned(_ZnamSt11align_val_t, size, alignment);
  return api_aligned_or(alignment, size, ORIGIN_ARRAY_ALIGNED, array_aligned_or_null);
}

/* ---- delete ----------------------------------------------------------------------------------
 * What it was given besides the pointer is checked where that is cheap. In the secure grade it is
 * exact, and so is the call by which the block came. */

static always_inline void delete_of(void *p, origin_t origin, const char *call) {
  api_free_or(p, origin, call, api_free_slow);
}
void _ZdlPv(void *p) { delete_of(p, ORIGIN_NEW, "delete"); }
void _ZdaPv(void *p) {
  if (unlikely(is_replaced)) return _ZdlPv(p);
  delete_of(p, ORIGIN_NEW_ARRAY, "delete[]");
}
void _ZdlPvSt11align_val_t(void *p, size_t alignment) {
  api_check_alignment(p, alignment, "delete");
  delete_of(p, ORIGIN_NEW_ALIGNED, "delete");
}
void _ZdaPvSt11align_val_t(void *p, size_t alignment) {
  if (unlikely(is_replaced)) return _ZdlPvSt11align_val_t(p, alignment);
  api_check_alignment(p, alignment, "delete[]");
  delete_of(p, ORIGIN_ARRAY_ALIGNED, "delete[]");
}

static cold void check_and_delete(void *p, size_t size, size_t alignment, origin_t origin,
                                  const char *call) {
  bool is_ours = p != NULL && !heap_is_foreign(p);
  if (!SECURE && is_ours) heap_check_class(p, size, alignment, call);
  if (SECURE && is_ours) secure_check_size(p, size, call);
  if (SECURE) api_closed_free(p, origin, call);
  else api_free(p, call);
}
static always_inline void delete_sized(void *p, size_t size, origin_t origin, const char *call,
                                       void (*plain)(void *p)) {
  slab_t *s = SECURE && !is_replaced ? fast_slab_here(p) : NULL;
  if (SECURE && likely(s != NULL)) return secure_free_small(s, p, size, origin, call);
  if (!SECURE && likely(fast_has_class_of(p, size))) return delete_of(p, origin, call);
  if (is_replaced) return plain(p);
  check_and_delete(p, size, 1, origin, call);
}
static always_inline void delete_aligned(void *p, size_t size, size_t alignment, origin_t origin,
                                         const char *call) {
  slab_t *s = SECURE ? fast_slab_here(p) : NULL;
  api_check_alignment(p, alignment, call);
  if (SECURE && likely(s != NULL)) return secure_free_small(s, p, size, origin, call);
  if (!SECURE && likely(fast_has_class_aligned(p, size, alignment)))
    return delete_of(p, origin, call);
  check_and_delete(p, size, alignment, origin, call);
}
OPERATOR void _ZdlPvm(void *p, size_t size) { delete_sized(p, size, ORIGIN_NEW, "delete", _ZdlPv); }
OPERATOR void _ZdaPvm(void *p, size_t size) {
  delete_sized(p, size, ORIGIN_NEW_ARRAY, "delete[]", _ZdaPv);
}
OPERATOR void _ZdlPvmSt11align_val_t(void *p, size_t size, size_t alignment) {
  if (unlikely(is_replaced)) return _ZdlPvSt11align_val_t(p, alignment);
  delete_aligned(p, size, alignment, ORIGIN_NEW_ALIGNED, "delete");
}
OPERATOR void _ZdaPvmSt11align_val_t(void *p, size_t size, size_t alignment) {
  if (unlikely(is_replaced)) return _ZdaPvSt11align_val_t(p, alignment);
  delete_aligned(p, size, alignment, ORIGIN_ARRAY_ALIGNED, "delete[]");
}
OPERATOR void _ZdlPvRKSt9nothrow_t(void *p) { _ZdlPv(p); }
OPERATOR void _ZdaPvRKSt9nothrow_t(void *p) { _ZdaPv(p); }
OPERATOR void _ZdlPvSt11align_val_tRKSt9nothrow_t(void *p, size_t alignment) {
  _ZdlPvSt11align_val_t(p, alignment);
}
OPERATOR void _ZdaPvSt11align_val_tRKSt9nothrow_t(void *p, size_t alignment) {
  _ZdaPvSt11align_val_t(p, alignment);
}

/* ---- hints, and the size that is really there ------------------------------------------------
 * Names of LLVM and tcmalloc, for which programs look: 12__hot_cold_t is a hint. It comes last, and
 * nobody looks at it, as at nothrow_t.
 * The block and its size come back together. Where the program has replaced the operator, only the
 * size that was asked for is known to be there. */

typedef struct {
  void *p;
  size_t n;
} sized_t;
static always_inline sized_t with_size(void *p, size_t size) {
  if (p == NULL) return (sized_t){NULL, 0};
  return (sized_t){p, is_replaced ? size : api_usable_size(p, "operator new")};
}
OPERATOR sized_t __size_returning_new(size_t size) { return with_size(_Znwm(size), size); }
OPERATOR sized_t __size_returning_new_hot_cold(size_t size) { return with_size(_Znwm(size), size); }
OPERATOR sized_t __size_returning_new_aligned(size_t size, size_t alignment) {
  return with_size(_ZnwmSt11align_val_t(size, alignment), size);
}
OPERATOR sized_t __size_returning_new_aligned_hot_cold(size_t size, size_t alignment) {
  return with_size(_ZnwmSt11align_val_t(size, alignment), size);
}
OPERATOR void *_Znwm12__hot_cold_t(size_t size) { return _Znwm(size); }
OPERATOR void *_Znam12__hot_cold_t(size_t size) { return _Znam(size); }
OPERATOR void *_ZnwmSt11align_val_t12__hot_cold_t(size_t size, size_t alignment) {
  return _ZnwmSt11align_val_t(size, alignment);
}
OPERATOR void *_ZnamSt11align_val_t12__hot_cold_t(size_t size, size_t alignment) {
  return _ZnamSt11align_val_t(size, alignment);
}
OPERATOR void *_ZnwmRKSt9nothrow_t12__hot_cold_t(size_t size) { return _ZnwmRKSt9nothrow_t(size); }
OPERATOR void *_ZnamRKSt9nothrow_t12__hot_cold_t(size_t size) { return _ZnamRKSt9nothrow_t(size); }
OPERATOR void *_ZnwmSt11align_val_tRKSt9nothrow_t12__hot_cold_t(size_t size, size_t alignment) {
  return _ZnwmSt11align_val_tRKSt9nothrow_t(size, alignment);
}
OPERATOR void *_ZnamSt11align_val_tRKSt9nothrow_t12__hot_cold_t(size_t size, size_t alignment) {
  return _ZnamSt11align_val_tRKSt9nothrow_t(size, alignment);
}
#endif
