/* nt.h - the calls of Windows that freehold uses                                        layer 1: os
 * Owns:    nothing.   Called by: os, windows.c.   Calls: ntdll, kernel32.
 * Threads: any. Functions of ntdll whose names begin with Nt are the bare system calls: they lock
 *          nothing in the process, allocate nothing, and leave the thread's last error alone.
 *
 * Declared here, since the macros of <windows.h> would be in everybody's way. The types are for 64
 * bits; a BOOL is an int, a ULONG a uint32_t, an NTSTATUS an int32_t. */
#pragma once

#include "../../base/base.h"

typedef void *handle_t;
#define NT_SELF ((handle_t)(intptr_t)-1) /* the process */

#define NT_CALL __declspec(dllimport)

/* ---- memory ---------------------------------------------------------------------------------- */

enum {
  MEM_COMMIT = 0x1000,
  MEM_RESERVE = 0x2000,
  MEM_DECOMMIT = 0x4000,
  MEM_RELEASE = 0x8000,
  PAGE_NOACCESS = 1,
  PAGE_READONLY = 2,
  PAGE_READWRITE = 4,
  PAGE_EXECUTE = 0x10,
  PAGE_GUARD = 0x100,
};
#define STATUS_CONFLICTING_ADDRESSES ((int32_t)0xC0000018)

typedef struct {
  void *base, *allocation_base;
  uint32_t allocation_protection, partition;
  size_t size;
  uint32_t state, protection, kind, room;
} nt_region_t; /* what query 0 gives */
typedef struct {
  const void *page;
  uint64_t flags; /* bit 0: in memory */
} nt_page_t;      /* query 4 */
enum { NT_REGION = 0, NT_PAGES = 4 };

NT_CALL int32_t NtAllocateVirtualMemory(handle_t process, void **at, uintptr_t zero_bits,
                                        size_t *size, uint32_t how, uint32_t protection);
NT_CALL int32_t NtFreeVirtualMemory(handle_t process, void **at, size_t *size, uint32_t how);
NT_CALL int32_t NtProtectVirtualMemory(handle_t process, void **at, size_t *size,
                                       uint32_t protection, uint32_t *before);
NT_CALL int32_t NtQueryVirtualMemory(handle_t process, const void *at, int query, void *answer,
                                     size_t size, size_t *got);
NT_CALL int32_t NtReadVirtualMemory(handle_t process, const void *from, void *to, size_t size,
                                    size_t *got);

/* ---- processes and threads ------------------------------------------------------------------- */

typedef struct {
  int64_t created, exited, kernel, user; /* 100 ns */
} nt_times_t;
typedef struct {
  size_t peak_virtual, virtual_size;
  uint32_t faults;
  size_t peak_resident, resident, quota[4], committed, peak_committed;
} nt_memory_t;
enum { NT_PROCESS_MEMORY = 3, NT_PROCESS_TIMES = 4, NT_PROCESS_COOKIE = 36 };
typedef struct {
  uint32_t reserved, timer, page_size, pages, lowest_page, highest_page, granularity, room;
  uintptr_t lowest_address, highest_address, processors;
  uint8_t count;
} nt_system_t; /* query 0 */
typedef struct {
  uintptr_t process, thread;
} nt_thread_t;
typedef struct {
  uint32_t length;
  void *root, *name;
  uint32_t flags;
  void *security, *quality;
} nt_object_t;
enum { NT_SYNCHRONIZE = 0x100000 };
#define STATUS_INVALID_CID ((int32_t)0xC000000B)

NT_CALL int32_t NtQueryInformationProcess(handle_t process, int query, void *answer, uint32_t size,
                                          uint32_t *got);
NT_CALL int32_t NtQuerySystemInformation(int query, void *answer, uint32_t size, uint32_t *got);
NT_CALL int32_t NtQuerySystemTime(int64_t *now);
NT_CALL int32_t NtOpenThread(handle_t *thread, uint32_t access, nt_object_t *object,
                             nt_thread_t *which);
NT_CALL int32_t NtWaitForSingleObject(handle_t object, bool is_alertable, int64_t *timeout);
NT_CALL int32_t NtDelayExecution(bool is_alertable, int64_t *time);
NT_CALL int32_t NtTerminateProcess(handle_t process, int32_t status);
NT_CALL int32_t NtClose(handle_t handle);
NT_CALL int QueryPerformanceCounter(int64_t *count);
NT_CALL int QueryPerformanceFrequency(int64_t *rate);
NT_CALL handle_t CreateThread(void *security, size_t stack, uint32_t (*run)(void *), void *context,
                              uint32_t flags, uint32_t *number);

/* A word of the calling thread's block, to which gs points. */
static inline uintptr_t nt_thread_word(uintptr_t offset) {
  uintptr_t word;
  __asm__("movq %%gs:(%1), %0" : "=r"(word) : "r"(offset));
  return word;
}
enum { NT_PROCESS_NUMBER = 0x40, NT_THREAD_NUMBER = 0x48, NT_PROCESS_BLOCK = 0x60 };

/* What the loader says of a module that it loads or unloads. */
typedef struct {
  uint32_t flags;
  const void *path, *name;
  char *base;
  uint32_t size;
} nt_loaded_t;
enum { LOADED_FOR_EVER = 1 };
NT_CALL int32_t LdrAddRefDll(uint32_t how, void *base);
NT_CALL int32_t LdrRegisterDllNotification(
  uint32_t flags, void (*call)(uint32_t reason, const nt_loaded_t *module, void *context),
  void *context, void **cookie);

/* What the process was started with; only the words that we read have names. */
typedef struct {
  uint64_t unread[4];
  handle_t standard[3]; /* input, output, error */
  uint64_t unread_too[9];
  const uint16_t *environment;
} nt_parameters_t;
static inline const nt_parameters_t *nt_parameters(void) {
  enum { PARAMETERS = 4 };
  return ((nt_parameters_t **)nt_thread_word(NT_PROCESS_BLOCK))[PARAMETERS];
}

/* Time since the machine started, in units of 100 ns, on a page that all processes can read. */
static inline uint64_t nt_uptime(void) { return *(const volatile uint64_t *)0x7FFE0008; }

/* ---- faults ---------------------------------------------------------------------------------- */

typedef struct {
  uint32_t code, flags;
  void *next, *at;
  uint32_t count;
  uintptr_t words[15]; /* for an access: its kind and address */
} nt_exception_t;
typedef struct {
  nt_exception_t *exception;
  void *registers;
} nt_exception_pointers_t;
enum { EXCEPTION_GOES_ON = 0, EXCEPTION_IS_MENDED = -1 };
#define STATUS_ACCESS_VIOLATION 0xC0000005u

NT_CALL void *RtlAddVectoredExceptionHandler(uint32_t is_first,
                                             int32_t (*handler)(nt_exception_pointers_t *));

/* ---- files ----------------------------------------------------------------------------------- */

typedef struct {
  intptr_t status;
  uintptr_t done;
} nt_result_t;
enum {
  FILE_READ = (int32_t)0x80000000,
  FILE_WRITE = 0x40000000,
  FILE_APPEND = 4,
  FILE_SHARED = 7,
  FILE_NEW = 2,
  FILE_THERE = 3,
  FILE_PLAIN = 0x80,
  FILE_REPLACES = 1,
};
#define STATUS_PENDING 0x103

NT_CALL int32_t NtReadFile(handle_t file, handle_t event, void *call, void *context,
                           nt_result_t *result, void *text, uint32_t size, int64_t *at,
                           uint32_t *key);
NT_CALL int32_t NtWriteFile(handle_t file, handle_t event, void *call, void *context,
                            nt_result_t *result, const void *text, uint32_t size, int64_t *at,
                            uint32_t *key);
NT_CALL int32_t RtlUTF8ToUnicodeN(uint16_t *to, uint32_t room, uint32_t *got, const char *from,
                                  uint32_t size);
NT_CALL handle_t CreateFileW(const uint16_t *path, uint32_t access, uint32_t share, void *security,
                             uint32_t how, uint32_t flags, handle_t like);
NT_CALL int MoveFileExW(const uint16_t *from, const uint16_t *to, uint32_t how);
NT_CALL int DeleteFileW(const uint16_t *path);
