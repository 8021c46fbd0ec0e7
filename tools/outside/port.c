/* port.c - what the library asks the kernel about itself, asked about the target
 * Owns:    nothing.   Called by: the library, through the linker's --wrap.   Calls: target.h.
 * The rest of os/os.h is os_linux.c's: it is about this process. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../src/os/os.h"
#include "target.h"

#define PORTED(name) __wrap_##name

size_t PORTED(os_resident)(const void *at, size_t size);
size_t PORTED(os_resident)(const void *at, size_t size) {
  return target_resident((uintptr_t)at, size);
}

bool PORTED(os_copy)(void *to, const void *from, size_t size);
bool PORTED(os_copy)(void *to, const void *from, size_t size) {
  return target_read((uintptr_t)from, to, size) == size;
}

/* The name of a file about the process; NULL: it is no such file. */
static const char *name_in_proc(const char *path) {
  static const char *const folders[] = {OS_OF_PROCESS("")};
  for (size_t i = 0; i < ARRAY_LENGTH(folders); i++)
    if (strncmp(path, folders[i], strlen(folders[i])) == 0) return path + strlen(folders[i]);
  return NULL;
}

/* The list of mappings and the map of pages are the only files that are read while the target is
 * looked at. */
int PORTED(os_open)(const char *path);
int PORTED(os_open)(const char *path) {
  size_t size = 0;
  const char *name = name_in_proc(path);
  if (name != NULL && strcmp(name, "pagemap") == 0) {
    char pagemap[64];
    snprintf(pagemap, sizeof pagemap, "/proc/%d/pagemap", (int)target_pid());
    return target_is_process() ? open(pagemap, O_RDONLY | O_CLOEXEC) : -1;
  }
  if (name == NULL || strcmp(name, "maps") != 0) return open(path, O_RDONLY | O_CLOEXEC);
  char *text = target_maps(&size);
  int file = text == NULL ? -1 : memfd_create("maps", MFD_CLOEXEC);
  bool is_whole = file >= 0 && write(file, text, size) == (ssize_t)size;
  free(text);
  if (is_whole && lseek(file, 0, SEEK_SET) == 0) return file;
  if (file >= 0) close(file);
  return -1;
}

/* A line of /proc/PID/status, "VmHWM:   1234 kB". */
static uint64_t status_kib(FILE *file, const char *name) {
  char line[256];
  rewind(file);
  while (fgets(line, sizeof line, file) != NULL)
    if (strncmp(line, name, strlen(name)) == 0)
      return strtoull(line + strlen(name), NULL, 10) << 10;
  return 0;
}

void PORTED(os_usage)(os_usage_t *usage);
void PORTED(os_usage)(os_usage_t *usage) {
  char path[64], text[1024];
  unsigned long long minor, major, user, system, started;
  double up;
  long ticks = sysconf(_SC_CLK_TCK);
  memset(usage, 0, sizeof *usage);
  if (!target_is_process()) return;
  snprintf(path, sizeof path, "/proc/%d/stat", (int)target_pid());
  FILE *file = fopen(path, "re"), *clock = fopen("/proc/uptime", "re");
  size_t size = file == NULL ? 0 : fread(text, 1, sizeof text - 1, file);
  text[size] = '\0';
  const char *behind = strrchr(text, ')'); /* the name may have anything in it */
  if (
    behind != NULL && clock != NULL && fscanf(clock, "%lf", &up) == 1 &&
    sscanf(behind + 1,
           " %*c %*d %*d %*d %*d %*d %*u %llu %*u %llu %*u %llu %llu %*d %*d %*d %*d %*d %*d %llu",
           &minor, &major, &user, &system, &started) == 5) {
    usage->minor_faults = minor;
    usage->major_faults = major;
    usage->user_ms = user * 1000 / (unsigned long long)ticks;
    usage->system_ms = system * 1000 / (unsigned long long)ticks;
    usage->elapsed_ms = (uint64_t)(up * 1000) - started * 1000 / (unsigned long long)ticks;
  }
  if (file != NULL) fclose(file);
  if (clock != NULL) fclose(clock);
  snprintf(path, sizeof path, "/proc/%d/status", (int)target_pid());
  file = fopen(path, "re");
  if (file == NULL) return;
  usage->peak_resident = status_kib(file, "VmHWM:");
  fclose(file);
}
