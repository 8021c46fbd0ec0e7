/* files_windows.c - files on Windows                                                    layer 1: os
 * Contract: os.h. A file's number is its handle, except for standard output and error. Opening,
 * renaming and removing files may lock, and changes the thread's last error. */
#if defined(_WIN32)
#include "../../base/bits.h"
#include "nt.h"
#include "../os.h"

static handle_t handle_of(int file) {
  return file == 1 || file == 2 ? nt_parameters()->standard[file] : (handle_t)(intptr_t)file;
}

/* Paths are UTF-8; a longer one is not found. */
enum { PATH_MOST = 512 };
typedef struct {
  uint16_t text[PATH_MOST + 1];
} path_t;
static const uint16_t *path_of(path_t *path, const char *from) {
  uint32_t got, room = PATH_MOST * sizeof *path->text;
  memset(path, 0, sizeof *path);
  if (RtlUTF8ToUnicodeN(path->text, room, &got, from, (uint32_t)strlen(from)) < 0)
    path->text[0] = 0;
  return path->text;
}

static int open_file(const char *from, uint32_t access, uint32_t how) {
  path_t path;
  handle_t file =
    CreateFileW(path_of(&path, from), access, FILE_SHARED, NULL, how, FILE_PLAIN, NULL);
  return (int)(intptr_t)file; /* -1: no file; handles have 32 bits */
}
/* A path that begins with a slash is another system's, such as /etc/freehold.conf. Here anybody may
 * make such a folder, and everybody's programs would obey the file in it. */
int os_open(const char *path) {
  return *path == '/' ? -1 : open_file(path, (uint32_t)FILE_READ, FILE_THERE);
}
int os_create(const char *path) { return open_file(path, FILE_WRITE, FILE_NEW); }
int os_append(const char *path) { return open_file(path, FILE_APPEND, FILE_THERE); }
void os_close(int file) { NtClose(handle_of(file)); }

static uintptr_t finish_transfer(handle_t file, int32_t status, const nt_result_t *result) {
  if (status == STATUS_PENDING) NtWaitForSingleObject(file, false, NULL);
  return status >= 0 && result->status >= 0 ? result->done : 0;
}
size_t os_read(int file, char *text, size_t size) {
  handle_t handle = handle_of(file);
  nt_result_t result = {0};
  uint32_t most = (uint32_t)min_size(size, MiB(1));
  int32_t status = NtReadFile(handle, NULL, NULL, NULL, &result, text, most, NULL, NULL);
  return finish_transfer(handle, status, &result);
}
bool os_write(int file, const char *text, size_t length) {
  handle_t handle = handle_of(file);
  while (length > 0) { /* Bound: the text's bytes */
    nt_result_t result = {0};
    uint32_t most = (uint32_t)min_size(length, MiB(1));
    int32_t status = NtWriteFile(handle, NULL, NULL, NULL, &result, text, most, NULL, NULL);
    uintptr_t wrote = finish_transfer(handle, status, &result);
    if (wrote == 0) return false;
    text += wrote;
    length -= wrote;
  }
  return true;
}

bool os_rename(const char *from, const char *to) {
  path_t path, other;
  return MoveFileExW(path_of(&path, from), path_of(&other, to), FILE_REPLACES) != 0;
}
void os_remove(const char *path) {
  path_t there;
  DeleteFileW(path_of(&there, path));
}

uint64_t os_file_identity(int file) {
  handle_t handle = handle_of(file);
  return handle == NULL || handle == NT_SELF ? 0 : (uintptr_t)handle | (uint64_t)1 << 63;
}
#endif
