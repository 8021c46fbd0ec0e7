/* traced.c - the event trace of a process that is copied, and what must hold of it
 *
 * The library has its trace wiped in children of fork, and its file is mapped for all of them. A
 * copy is to find the trace as it is at the point. So the state goes along. The file is replaced by
 * the copy's own, with what was in it then. It has the same number and name, and lies at the same
 * addresses. */
#include "park.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../../src/os/os.h"
#include "../../../src/support/trace_file.h"

enum { FILES_MOST = 8, MARK = 87654 };
enum { RING = 2 * TRACE_CHUNK }; /* bytes, of the operations that have rings */

static struct {
  atomic_ptr_t *state;
  atomic32_t *is_on;
  uint64_t (*identity)(int file);
  uint64_t (*thread)(void);
} lib;

/* The original's, and in it one for each copy: they give their files the same names. */
static char folder[] = "/tmp/park-XXXXXX";
static const char path[] = "trace";
static pid_t tracer; /* 0: there is no file */

static void empty_folder(const char *name) {
  DIR *all = opendir(name);
  if (all == NULL || chdir(name) != 0) return;
  for (struct dirent *file; (file = readdir(all)) != NULL;) unlink(file->d_name);
  closedir(all);
  if (chdir(folder) == 0) rmdir(name);
}
static void remove_traces(void) {
  DIR *all = getpid() == tracer ? opendir(folder) : NULL;
  if (all == NULL) return;
  for (struct dirent *one; (one = readdir(all)) != NULL;)
    if (one->d_name[0] != '.' && unlink(one->d_name) != 0) empty_folder(one->d_name);
  closedir(all);
  rmdir(folder);
}
void traced_name(void) {
  tracer = getpid();
  if (mkdtemp(folder) == NULL || chdir(folder) != 0 || atexit(remove_traces) != 0)
    park_fail("no folder");
}
void traced_start(void) {
  if (!api.trace_start(path)) park_fail("no trace: %s", strerror(errno));
}
void traced_stop(void) {
  if (!api.trace_stop()) park_fail("no trace to end: %s", strerror(errno));
}
static void enter_own_folder(void) {
  char name[32];
  snprintf(name, sizeof name, "%d", (int)getpid());
  if (mkdir(name, 0700) != 0 || chdir(name) != 0) park_fail("no folder of its own");
}
static void leave_own_folder(void) {
  char name[32];
  snprintf(name, sizeof name, "%d", (int)getpid());
  if (chdir(folder) == 0) empty_folder(name);
}

void traced_load(void) {
  lib.state = library_hidden("trace_state");
  lib.is_on = library_hidden("is_tracing");
  *(void **)&lib.identity = library_hidden("os_file_identity");
  *(void **)&lib.thread = library_hidden("os_thread");
}

static trace_file_t *state_now(void) {
  return lib.state == NULL ? NULL : atomic_ptr_load_relaxed(lib.state);
}

/* ---- copies ---------------------------------------------------------------------------------- */

static struct {
  int number, copy; /* of a trace's file, and of one with the same contents, whose name is */
  unsigned which;   /* the folder's, and this, until it is the copy's */
  char name[100];   /* the whole path of the original */
} files[FILES_MOST];
static unsigned file_count;
static uint64_t thread_before;

static int copy_file(int file, unsigned which) {
  struct stat about;
  char name[64];
  snprintf(name, sizeof name, "%s/%u", folder, which);
  int copy = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
  if (copy < 0 || fstat(file, &about) != 0) park_fail("no copy of a trace");
  for (off_t at = 0; at < about.st_size;) {
    static char bytes[TRACE_CHUNK];
    ssize_t got = pread(file, bytes, sizeof bytes, at);
    if (got <= 0 || pwrite(copy, bytes, (size_t)got, at) != got) park_fail("no copy of a trace");
    at += got;
  }
  return copy;
}

static void keep_file(int number) {
  char link[32], name[sizeof files[0].name];
  snprintf(link, sizeof link, "/proc/self/fd/%d", number);
  ssize_t length = readlink(link, name, sizeof name - 1);
  if (length < 0) return;
  name[length] = '\0';
  if (strncmp(name, folder, strlen(folder)) != 0) return;
  if (file_count == FILES_MOST) park_fail("too many traces");
  static unsigned copies = 1000000000;
  unsigned i = 0;
  while (i < file_count && strcmp(files[i].name, name) != 0) i++;
  files[file_count].number = number;
  files[file_count].which = i < file_count ? files[i].which : ++copies;
  files[file_count].copy = i < file_count ? dup(files[i].copy) : copy_file(number, copies);
  memcpy(files[file_count++].name, name, sizeof name);
}

/* What a child finds empty otherwise. */
static void advise_all(trace_file_t *s, int advice) {
  madvise(s, trace_state_size(tracer == 0), advice);
  for (size_t i = 0; i < RINGS_MOST; i++) {
    void *ring = tracer == 0 ? atomic_ptr_load_relaxed(&s->ring[i]) : NULL;
    if (ring != NULL) madvise(ring, RING, advice);
  }
}

void traced_keep(void) {
  trace_file_t *s = state_now();
  if (s != NULL) advise_all(s, MADV_KEEPONFORK);
  if (lib.thread != NULL) thread_before = lib.thread();
  DIR *all = tracer != 0 ? opendir("/proc/self/fd") : NULL;
  for (struct dirent *one; all != NULL && (one = readdir(all)) != NULL;)
    keep_file(atoi(one->d_name));
  if (all != NULL) closedir(all);
}

void traced_kept(void) {
  while (file_count > 0) close(files[--file_count].copy);
}

/* Lines: "from-to rights offset device inode   name". */
static void map_copies(void) {
  char line[512], name[sizeof files[0].name];
  FILE *maps = fopen("/proc/self/maps", "re");
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
    unsigned long from, to, offset;
    if (sscanf(line, "%lx-%lx %*s %lx %*s %*s %99s", &from, &to, &offset, name) != 4) continue;
    for (unsigned i = 0; i < file_count; i++)
      if (strcmp(name, files[i].name) == 0 &&
          mmap((void *)from, to - from, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
               files[i].copy, (off_t)offset) == MAP_FAILED)
        park_fail("a trace is not mapped");
  }
  if (maps != NULL) fclose(maps);
}

/* The subject is the copy's first thread, of which the system says for long that it is there. */
static void bury_subject(trace_file_t *s) {
  enum { STAGE_BITS = 8, HALF = OS_THREAD_BITS / 2, NOBODY = 1 };
  uint64_t stage = atomic64_load_relaxed(&s->stage), low = stage & ((1 << STAGE_BITS) - 1);
  uint64_t nobody = (uint64_t)getpid() << HALF | NOBODY;
  if (stage >> STAGE_BITS == thread_before)
    atomic64_store_relaxed(&s->stage, nobody << STAGE_BITS | low);
}

void traced_adopt(bool subject_is_lost) {
  trace_file_t *s = state_now();
  if (tracer != 0) enter_own_folder();
  if (file_count != 0) map_copies();
  for (unsigned i = 0; i < file_count; i++) {
    char before[64];
    snprintf(before, sizeof before, "../%u", files[i].which);
    rename(before, strrchr(files[i].name, '/') + 1); /* once for each name */
    bool belongs = s != NULL && s->identity == lib.identity(files[i].number);
    if (dup2(files[i].copy, files[i].number) < 0) park_fail("a trace is not opened");
    if (belongs) s->identity = lib.identity(files[i].number);
  }
  traced_kept();
  if (s == NULL) return;
  advise_all(s, MADV_WIPEONFORK);
  if (subject_is_lost) bury_subject(s);
}

/* ---- what must hold -------------------------------------------------------------------------- */

/* Every record can be read; how many blocks of MARK bytes were allocated. */
static unsigned look_at_chunk(const trace_chunk_t *chunk, size_t at) {
  size_t used = atomic32_load_acquire(&chunk->used);
  unsigned marks = 0;
  trace_reader_t r;
  trace_event_t e;
  if (used == 0) return 0;
  if (chunk->mark != TRACE_CHUNK_MARK || used < sizeof *chunk || used > TRACE_CHUNK)
    park_fail("the trace's chunk at %zx has no head", at);
  trace_read_start(&r, chunk, used);
  while (trace_read(&r, &e)) marks += e.kind == TRACE_MALLOC && e.size == MARK;
  if (r.at != r.end) park_fail("the trace's chunk at %zx has a record that nobody knows", at);
  return marks;
}

static unsigned look_at_file(const trace_file_t *s) {
  static char bytes[TRACE_CHUNK] __attribute__((aligned(16)));
  int file = (int)atomic32_load_relaxed(&s->file);
  unsigned marks = 0;
  for (size_t at = TRACE_CHUNK; pread(file, bytes, sizeof bytes, (off_t)at) > 0; at += TRACE_CHUNK)
    marks += look_at_chunk((const trace_chunk_t *)(const void *)bytes, at);
  return marks;
}

static unsigned look_at_rings(const trace_file_t *s) {
  unsigned marks = 0;
  for (size_t i = 0; i < RINGS_MOST; i++) {
    const char *first = atomic_ptr_load_relaxed(&s->ring[i]);
    for (size_t at = 0; first != NULL && at < RING; at += TRACE_CHUNK)
      marks += look_at_chunk((const trace_chunk_t *)(const void *)(first + at), at);
  }
  return marks;
}

static unsigned look(void) {
  const trace_file_t *s = state_now();
  return tracer != 0 ? look_at_file(s) : look_at_rings(s);
}

/* The caller's next slow call is in the trace. */
static void expect_recording(void) {
  unsigned before = look();
  api.free(api.malloc(MARK));
  if (look() != before + 1) park_fail("another thread's call is not in the trace");
}

static void expect_next_trace(bool is_on) {
  if (is_on) traced_stop();
  traced_start();
  expect_recording();
  traced_stop();
  leave_own_folder();
}

void traced_check(bool moves) {
  if (state_now() == NULL) return;
  bool is_on = atomic32_load_acquire(lib.is_on) != 0;
  if (is_on && !moves) expect_recording();
  if (tracer != 0) expect_next_trace(is_on);
}
