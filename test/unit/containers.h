/* containers.h - a machine with control groups, as its /proc and /sys tell of them
 * Owns:    those files. */
#ifndef CONTAINERS_H
#define CONTAINERS_H

#include "core.h"

#include "../../src/os/container.h"

static struct { const char *name, *text; } machine_files[32];

unused static const char *machine_find(const char *name) {
  for (unsigned i = 0; i < ARRAY_LENGTH(machine_files) && machine_files[i].name != NULL; i++)
    if (strcmp(machine_files[i].name, name) == 0) return machine_files[i].text;
  return NULL;
}

/* `text`: what stands in it, kept by the caller; NULL: it is not there any more. */
unused static void machine_file(const char *name, const char *text) {
  unsigned i = 0;
  while (machine_files[i].name != NULL && strcmp(machine_files[i].name, name) != 0) i++;
  CHECK_LT(i, ARRAY_LENGTH(machine_files) - 1);
  machine_files[i].name = name;
  machine_files[i].text = text;
}

/* A machine of 64 GiB whose process is in `group`; `mounts`: the lines that say where these are. */
unused static void machine_start(const char *group, const char *mounts) {
  os_fake.file = machine_find;
  os_fake.memory = GiB(64);
  machine_file("/proc/self/cgroup", group);
  machine_file("/proc/self/mountinfo", mounts);
}

#define MOUNT_2 "30 1 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
#define MOUNT_1                                                                                    \
  "31 1 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"                                      \
  "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"                           \
  "33 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n"

/* Groups of version 2: a pod of 8 GiB around a container of 1 GiB, of which 300 MiB are used. */
unused static void machine_with_pod(void) {
  machine_start("0::/pod/box\n", "29 1 8:1 / / rw - ext4 /dev/sda1 rw\n" MOUNT_2);
  machine_file("/sys/fs/cgroup/pod/memory.max", "8589934592\n");
  machine_file("/sys/fs/cgroup/pod/memory.high", "max\n");
  machine_file("/sys/fs/cgroup/pod/memory.current", "1000000000\n");
  machine_file("/sys/fs/cgroup/pod/box/memory.max", "1073741824\n");
  machine_file("/sys/fs/cgroup/pod/box/memory.high", "max\n");
  machine_file("/sys/fs/cgroup/pod/box/memory.current", "314572800\n");
}

unused static int look_once(void) {
  container_look(os_fake.now_ms);
  return (int)atomic32_load_relaxed(&container.state);
}
unused static uint64_t found_limit(void) { return atomic64_load_relaxed(&container.limit); }
unused static uint64_t found_room(void) { return atomic64_load_relaxed(&container.room); }

#endif
