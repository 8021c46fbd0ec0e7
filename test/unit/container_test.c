/* container_test.c - tests of os/container */
#include "containers.h"

TEST(container, without_control_groups_there_is_no_limit_and_percentages_are_of_the_machine, "") {
  os_fake.memory = GiB(64);
  CHECK_EQ(look_once(), CONTAINER_NONE);
  CHECK_EQ(found_limit(), (uint64_t)0);
  CHECK_EQ(container_memory(), (uint64_t)GiB(64));
}

TEST(container, of_nested_groups_the_least_limit_and_the_least_room_count, "") {
  machine_with_pod();
  CHECK_EQ(look_once(), CONTAINER_LIMITED);
  CHECK_EQ(found_limit(), (uint64_t)GiB(1));
  CHECK_EQ(found_room(), (uint64_t)(GiB(1) - MiB(300)));
  CHECK_EQ(container_memory(), (uint64_t)GiB(1));
  machine_file("/sys/fs/cgroup/pod/memory.current", "8489934592\n"); /* the neighbours' */
  look_once();
  CHECK_EQ(found_limit(), (uint64_t)GiB(1));
  CHECK_EQ(found_room(), (uint64_t)100000000);
  machine_file("/sys/fs/cgroup/pod/memory.max", "536870912\n");
  look_once();
  CHECK_EQ(found_limit(), (uint64_t)MiB(512));
  CHECK_EQ(found_room(), (uint64_t)0);
}

TEST(container, the_threshold_at_which_the_kernel_throttles_counts_as_a_limit, "") {
  machine_with_pod();
  machine_file("/sys/fs/cgroup/pod/box/memory.high", "838860800\n");
  look_once();
  CHECK_EQ(found_limit(), (uint64_t)MiB(800));
}

TEST(container, a_limit_above_what_the_machine_has_is_none, "") {
  machine_start("4:memory:/box\n0::/\n", MOUNT_1);
  machine_file("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "9223372036854771712\n");
  machine_file("/sys/fs/cgroup/memory/box/memory.usage_in_bytes", "1000\n");
  CHECK_EQ(look_once(), CONTAINER_NONE);
  CHECK_EQ(container_memory(), (uint64_t)GiB(64));
}

TEST(container, version_1_is_read_where_it_has_the_memory_of_the_process, "") {
  machine_start("9:name=systemd:/x\n5:cpuset,memory:/a/b\n0::/z\n", MOUNT_1);
  machine_file("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "400000000\n");
  machine_file("/sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "390000000\n");
  machine_file("/sys/fs/cgroup/memory/a/b/memory.failcnt", "7\n");
  machine_file("/sys/fs/cgroup/memory/a/b/memory.stat",
               "inactive_file 5\nhierarchical_memory_limit 1\ntotal_inactive_file 50000000\n");
  machine_file("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "500000000\n");
  machine_file("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "391000000\n");
  CHECK_EQ(look_once(), CONTAINER_LIMITED);
  CHECK_EQ(found_limit(), (uint64_t)400000000);
  CHECK_EQ(found_room(), (uint64_t)60000000); /* what the kernel can drop at once is room */
  CHECK_EQ(atomic32_load_relaxed(&container.is_short), 0u);
  machine_file("/sys/fs/cgroup/memory/a/b/memory.failcnt", "8\n");
  look_once();
  CHECK_EQ(atomic32_load_relaxed(&container.is_short), 1u);
  look_once();
  CHECK_EQ(atomic32_load_relaxed(&container.is_short), 0u);
}

TEST(container, a_group_that_is_mounted_as_the_root_is_found_by_its_path_or_without_it, "") {
  static const char *const mounts[] = {
    "33 31 0:32 /docker/0123 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
    "33 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
  };
  static const char *const groups[] = {"4:memory:/docker/0123\n", "4:memory:/../..\n"};
  for (unsigned i = 0; i < 2; i++) {
    machine_start(groups[i], mounts[i]);
    machine_file("/sys/fs/cgroup/memory/memory.limit_in_bytes",
                 i == 0 ? "70000000\n" : "80000000\n");
    machine_file("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1000000\n");
    look_once();
    CHECK_EQ(found_limit(), (uint64_t)(i == 0 ? 70000000 : 80000000));
  }
}

/* ---- processors ---- */

static uint32_t found_processors(void) { return atomic32_load_relaxed(&container.processors); }

TEST(container, of_nested_groups_the_least_quota_counts_in_whole_processors, "") {
  machine_with_pod();
  machine_file("/sys/fs/cgroup/pod/cpu.max", "max 100000\n");
  look_once();
  CHECK_EQ(found_processors(), 0u);
  machine_file("/sys/fs/cgroup/pod/box/cpu.max", "250000 100000\n");
  look_once();
  CHECK_EQ(found_processors(), 3u);
  machine_file("/sys/fs/cgroup/pod/cpu.max", "200000 100000\n");
  CHECK_EQ(look_once(), CONTAINER_LIMITED);
  CHECK_EQ(found_processors(), 2u);
  machine_file("/sys/fs/cgroup/pod/box/cpu.max", "1000 50000\n");
  look_once();
  CHECK_EQ(found_processors(), 1u);
  machine_file("/sys/fs/cgroup/pod/cpu.max", "max 100000\n");
  machine_file("/sys/fs/cgroup/pod/box/cpu.max", "max 100000\n");
  look_once();
  CHECK_EQ(found_processors(), 0u);
}

TEST(container, in_version_1_the_quota_is_read_where_the_processors_are_shared_out, "") {
  machine_start("9:cpuset:/x\n7:cpuacct,cpu:/a/b\n4:memory:/m\n0::/z\n", MOUNT_1);
  machine_file("/sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us", "-1\n");
  machine_file("/sys/fs/cgroup/cpu/a/b/cpu.cfs_period_us", "100000\n");
  CHECK_EQ(look_once(), CONTAINER_NONE);
  CHECK_EQ(found_processors(), 0u);
  machine_file("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "410000\n");
  machine_file("/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
  CHECK_EQ(look_once(), CONTAINER_NONE);
  CHECK_EQ(found_processors(), 5u);
  machine_file("/sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us", "400000\n");
  look_once();
  CHECK_EQ(found_processors(), 4u);
  machine_file("/proc/self/cgroup", "7:cpuacct,cpu:/\n4:memory:/m\n"); /* it is moved */
  look_once();
  CHECK_EQ(found_processors(), 0u);
}

TEST(container, a_quota_that_is_torn_is_ignored_and_the_figures_stay, "") {
  static const char *const torn[] = {"x",          "200000",      "200000 ",  "200000 100000",
                                     "200000 0\n", "-1 100000\n", "200000\n", "\n"};
  machine_with_pod();
  machine_file("/sys/fs/cgroup/pod/box/cpu.max", "200000 100000\n");
  look_once();
  for (unsigned i = 0; i < ARRAY_LENGTH(torn); i++) {
    machine_file("/sys/fs/cgroup/pod/box/cpu.max", torn[i]);
    CHECK_EQ(look_once(), CONTAINER_TORN);
    CHECK_EQ(found_processors(), 2u);
  }
  machine_file("/sys/fs/cgroup/pod/box/memory.max", "536870912\n"); /* which is whole */
  look_once();
  CHECK_EQ(found_limit(), (uint64_t)MiB(512));
  machine_file("/proc/self/cgroup", NULL);
  look_once();
  CHECK_EQ(found_processors(), 2u);
}

TEST(container, a_period_that_is_not_there_leaves_a_quota_without_meaning, "") {
  machine_start("7:cpu:/a\n", MOUNT_1);
  machine_file("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "200000\n");
  CHECK_EQ(look_once(), CONTAINER_TORN);
  CHECK_EQ(found_processors(), 0u);
}

TEST(container, a_process_that_is_moved_is_found_in_its_new_group, "") {
  machine_with_pod();
  look_once();
  machine_file("/proc/self/cgroup", "0::/pod\n");
  look_once();
  CHECK_EQ(found_limit(), (uint64_t)GiB(8));
}

TEST(container, events_and_stalls_of_version_2_mean_that_the_kernel_is_short, "") {
  machine_with_pod();
  machine_file("/sys/fs/cgroup/pod/box/memory.events", "low 0\nhigh 3\nmax 4\noom 0\n");
  look_once();
  look_once();
  CHECK_EQ(atomic32_load_relaxed(&container.is_short), 0u);
  machine_file("/sys/fs/cgroup/pod/box/memory.events", "low 0\nhigh 3\nmax 5\noom 0\n");
  look_once();
  CHECK_EQ(atomic32_load_relaxed(&container.is_short), 1u);
  machine_file("/sys/fs/cgroup/pod/box/memory.pressure",
               "some avg10=40.00 avg60=1.00 avg300=0.00 total=9\n"
               "full avg10=9.99 avg60=0.00 avg300=0.00 total=7\n");
  look_once();
  CHECK_EQ(atomic32_load_relaxed(&container.is_short), 0u);
  machine_file("/sys/fs/cgroup/pod/box/memory.pressure", "full avg10=10.00 avg60=0.00 total=7\n");
  look_once();
  CHECK_EQ(atomic32_load_relaxed(&container.is_short), 1u);
}

TEST(container, files_that_are_torn_or_gone_are_ignored_and_the_figures_stay, "") {
  static const char *const torn[] = {
    "", "107374", "1073741824", "12x\n", "-5\n", "\n", "99999999999999999999999\n"};
  machine_with_pod();
  look_once();
  for (unsigned i = 0; i < ARRAY_LENGTH(torn); i++) {
    machine_file("/sys/fs/cgroup/pod/box/memory.max", torn[i]);
    int state = look_once();
    CHECK_EQ(state, torn[i][0] == '\0' ? CONTAINER_LIMITED : CONTAINER_TORN);
    CHECK_EQ(found_limit(), (uint64_t)(torn[i][0] == '\0' ? GiB(8) : GiB(1)));
    machine_file("/sys/fs/cgroup/pod/box/memory.max", "1073741824\n");
    CHECK_EQ(look_once(), CONTAINER_LIMITED);
  }
  machine_file("/sys/fs/cgroup/pod/box/memory.current", NULL);
  CHECK_EQ(look_once(), CONTAINER_LIMITED); /* the pod's */
  CHECK_EQ(found_limit(), (uint64_t)GiB(8));
}

TEST(container, a_limit_stays_known_while_no_file_can_be_opened, "") {
  machine_with_pod();
  look_once();
  uint64_t room = found_room();
  machine_file("/proc/self/cgroup", NULL); /* as after chroot, or without free file numbers */
  CHECK_EQ(look_once(), CONTAINER_LIMITED);
  CHECK(found_limit() == GiB(1) && found_room() == room);
  machine_file("/proc/self/cgroup", "0::/pod/box\n");
  machine_file("/sys/fs/cgroup/pod/box/memory.current", "104857600\n");
  CHECK_EQ(look_once(), CONTAINER_LIMITED);
  CHECK_EQ(found_room(), (uint64_t)GiB(1) - 104857600);
  machine_file("/proc/self/cgroup", "0::/\n"); /* moved to where there is no limit */
  CHECK_EQ(look_once(), CONTAINER_NONE);
  CHECK_EQ(found_limit(), (uint64_t)0);
}

TEST(container, nonsense_where_groups_and_mounts_should_stand_means_that_there_is_none, "") {
  static const char *const texts[] = {"",
                                      "\n\n",
                                      "::::\n",
                                      "0:\n",
                                      "0::x\n",
                                      "4:memory:\n",
                                      " - \n",
                                      "1 2 3 4 - cgroup2\n",
                                      "31 23 0:28 / - cgroup2 a b\n"};
  for (unsigned i = 0; i < ARRAY_LENGTH(texts); i++) {
    machine_start(texts[i], MOUNT_2);
    CHECK_EQ(look_once(), CONTAINER_NONE);
    machine_start("0::/pod\n", texts[i]);
    CHECK_EQ(look_once(), CONTAINER_NONE);
  }
}

TEST(container, a_list_of_mounts_longer_than_the_buffer_is_read_to_its_end, "") {
  static char mounts[200000];
  size_t n = 0;
  machine_with_pod();
  for (int i = 0; i < 900; i++)
    n += (size_t)sprintf(mounts + n, "%d 1 0:%d / /mnt/%0*d rw - tmpfs tmpfs rw\n", i, i,
                         40 + i % 90, i);
  memset(mounts + n, 'x', 9000); /* and a line that does not fit */
  n += 9000;
  strcpy(mounts + n, "\n" MOUNT_2);
  machine_file("/proc/self/mountinfo", mounts);
  CHECK_EQ(look_once(), CONTAINER_LIMITED);
  CHECK_EQ(found_limit(), (uint64_t)GiB(1));
}

TEST(container, what_the_machine_has_is_asked_at_each_look_and_not_for_each_percentage, "") {
  os_fake.memory = GiB(64);
  CHECK_EQ(container_machine(), (uint64_t)GiB(64));
  CHECK_EQ(container_memory(), (uint64_t)GiB(64));
  os_fake.memory = GiB(32);
  CHECK_EQ(container_machine(), (uint64_t)GiB(64));
  CHECK_EQ(container_memory(), (uint64_t)GiB(64));
  CHECK_EQ(look_once(), CONTAINER_NONE);
  CHECK_EQ(container_machine(), (uint64_t)GiB(32));
  CHECK_EQ(container_memory(), (uint64_t)GiB(32));
}

static pthread_barrier_t inside;
static void *look_and_stay(void *context) {
  container_look(*(uint32_t *)context);
  return NULL;
}
static const char *stay_inside(const char *path) {
  if (strstr(path, "memory.max") != NULL) {
    pthread_barrier_wait(&inside); /* it is in the middle */
    pthread_barrier_wait(&inside);
  }
  return machine_find(path);
}

/* ---- a thread that never comes back ---- */

static bool all_have_ended(uint64_t thread) { return thread != 0; }
static const char *die_inside(const char *path) {
  if (strstr(path, "memory.max") != NULL) pthread_exit(NULL);
  return machine_find(path);
}
static void one_dies_inside(void) {
  pthread_t thread;
  os_fake.file = die_inside;
  CHECK_EQ(pthread_create(&thread, NULL, look_and_stay, &os_fake.now_ms), 0);
  pthread_join(thread, NULL);
  os_fake.file = machine_find;
}

TEST(container, a_thread_that_dies_while_it_looks_keeps_nobody_from_looking_again, "") {
  machine_with_pod();
  look_once();
  static const char *const limits[] = {"536870912\n", "268435456\n", "134217728\n"};
  for (int round = 0; round < 3; round++) {
    one_dies_inside();
    machine_file("/sys/fs/cgroup/pod/box/memory.max", limits[round]);
    os_fake.has_ended = NULL; /* it is not known yet, or a filter forbids to ask */
    CHECK_EQ(look_once(), CONTAINER_LIMITED);
    CHECK_EQ(found_limit(), (uint64_t)GiB(1) >> round);
    os_fake.has_ended = all_have_ended;
    CHECK_EQ(look_once(), CONTAINER_LIMITED);
    CHECK_EQ(found_limit(), (uint64_t)MiB(512) >> round);
  }
}

TEST(container, a_process_that_moved_while_a_thread_died_is_found_in_its_new_group, "") {
  machine_with_pod();
  look_once();
  one_dies_inside();
  os_fake.has_ended = all_have_ended;
  machine_file("/proc/self/cgroup", "0::/pod\n");
  CHECK_EQ(look_once(), CONTAINER_LIMITED);
  CHECK_EQ(found_limit(), (uint64_t)GiB(8));
}

TEST(container, a_child_of_fork_looks_though_a_thread_of_its_parent_did, "") {
  const uint64_t process = (uint64_t)1 << OS_THREAD_BITS / 2;
  machine_with_pod();
  os_fake.thread = 70 * process + 71;
  one_dies_inside(); /* it lives in the parent, as far as is known */
  CHECK_EQ(look_once(), CONTAINER_UNREAD);
  os_fake.thread = 72 * process + 72;
  CHECK_EQ(look_once(), CONTAINER_LIMITED);
}

TEST(container, a_file_that_does_not_answer_holds_up_one_thread_and_then_counts_as_silent, "") {
  pthread_t thread;
  machine_with_pod();
  look_once();
  pthread_barrier_init(&inside, NULL, 2);
  os_fake.file = stay_inside;
  uint32_t now = os_fake.now_ms;
  CHECK_EQ(pthread_create(&thread, NULL, look_and_stay, &now), 0);
  pthread_barrier_wait(&inside);
  os_fake.file = machine_find;
  CHECK_EQ(look_once(), CONTAINER_LIMITED); /* passes by */
  os_fake.now_ms += 20000;
  CHECK_EQ(look_once(), CONTAINER_SILENT);
  CHECK_EQ(found_limit(), (uint64_t)GiB(1));
  pthread_barrier_wait(&inside);
  pthread_join(thread, NULL);
  CHECK_EQ(look_once(), CONTAINER_LIMITED); /* it has answered */
}
